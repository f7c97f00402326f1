"""Earned weights: normal scores by their quantiles, weights by their normal equations, nothing for bad sources."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from pipeline.selection.earned_weights import earn_weights, normal_scores, place_score

RNG = np.random.default_rng(0)


def test_normal_scores_are_the_quantiles_of_ranks() -> None:
    quantile = NormalDist().inv_cdf
    found = normal_scores([3.0, -math.inf, 7.0, 3.0])
    assert found.tolist() == pytest.approx([quantile(2.5 / 5), quantile(1 / 5), quantile(4 / 5), quantile(2.5 / 5)])


def test_a_place_lies_between_those_around_it_and_beyond_all_order_remains() -> None:
    values = np.array([3.0, 1.0, -math.inf, 2.0])
    quantile = NormalDist().inv_cdf
    assert place_score(values, 1.0) == pytest.approx(quantile((1 + 0.5 + 0.5) / 5))
    assert place_score(values, 2.5) == pytest.approx(quantile((1 + 2.0 + 0.5) / 5))
    assert place_score(values, -math.inf) == pytest.approx(quantile((0.5 + 0.5) / 5))
    ordered = [place_score(values, v) for v in (-math.inf, -0.5, 0.5, 1.0, 2.0, 2.5, 3.0, 4.0, 4.5)]
    assert ordered == sorted(ordered) and len(set(ordered)) == len(ordered)


def test_weights_solve_the_normal_equations_where_all_are_positive() -> None:
    x = np.random.default_rng(3).normal(size=(40, 2))
    y = x @ [0.8, 0.5] + 0.05 * np.random.default_rng(4).normal(size=40)
    found = earn_weights(x, y, np.zeros(x.shape[1]))
    candidates = [np.linalg.solve(x.T @ x + ridge * np.eye(2), x.T @ y) for ridge in (0.3, 1.0, 3.0)]
    assert min(np.abs(found - expected).max() for expected in candidates) < 1e-10


def test_the_ridge_is_the_one_that_predicts_left_out_networks_best() -> None:
    rng = np.random.default_rng(11)
    x = rng.normal(size=(15, 1))
    y = 0.5 * x[:, 0] + rng.normal(size=15)

    def error(ridge: float) -> float:
        total = 0.0
        for i in range(15):
            rest = np.arange(15) != i
            w = max(0.0, float(x[rest, 0] @ y[rest] / (x[rest, 0] @ x[rest, 0] + ridge)))
            total += (y[i] - w * x[i, 0]) ** 2
        return total

    best = min((0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 1e9), key=error)
    assert earn_weights(x, y, np.zeros(x.shape[1]))[0] == pytest.approx(
        max(0.0, x[:, 0] @ y / (x[:, 0] @ x[:, 0] + best)), abs=1e-10
    )


def test_a_source_that_is_wrong_or_random_earns_nothing_or_little() -> None:
    rng = np.random.default_rng(5)
    y = normal_scores(rng.normal(size=60))
    x = np.stack([y + 0.3 * rng.normal(size=60), -y, rng.normal(size=60)], axis=1)
    weights = earn_weights(x, y, np.zeros(x.shape[1]))
    assert weights[0] > 0.7
    assert weights[1] == 0.0
    assert abs(weights[2]) < 0.1
    assert (earn_weights(x[:, 1:2], y, np.zeros(1)) == 0).all()
    assert (earn_weights(rng.normal(size=(2, 2)), y[:2], np.zeros(2)) == 0).all()


def test_trust_is_the_least_and_grows_where_trainings_say_much() -> None:
    rng = np.random.default_rng(2)
    x, trust = rng.normal(size=(40, 2)), np.array([0.3, 0.0])
    assert earn_weights(x, 0.9 * x[:, 0], trust).tolist() == pytest.approx([0.9, 0.0], abs=0.02)
    assert earn_weights(x, -x[:, 0] - x[:, 1], trust).tolist() == [0.3, 0.0]
    assert earn_weights(x[:3], x[:3, 1], trust).tolist() == [0.3, 0.0]
    assert earn_weights(x, 2 * x[:, 1] - x[:, 0], trust).tolist() == pytest.approx([0.3, 0.3])
    few = [(x[:8, :1], 0.3 * x[:8, 0] + rng.normal(size=8)) for _ in range(30)]

    def error(start: float) -> float:
        return float(np.mean([abs(earn_weights(*pair, np.array([start]))[0] - 0.3) for pair in few]))

    assert error(0.3) < 0.8 * error(0.0)


@pytest.mark.parametrize(("trainings", "signal", "low", "high"), [(8, 0.0, 0.0, 0.5), (60, 0.5, 0.9, 1.0)])
def test_beside_the_search_few_trainings_earn_nothing_by_chance_and_many_what_is_there(
    trainings: int, signal: float, low: float, high: float
) -> None:
    """Six sources of noise, or one of them with a signal, beside two that are trusted: how often any of them earns."""
    trust, earned = np.array([0.5, 0.5, *[0.0] * 6]), 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        y = normal_scores(rng.normal(size=trainings))
        x = rng.normal(size=(trainings, 8))
        x[:, 7] = signal * y + math.sqrt(1 - signal**2) * x[:, 7]
        earned += bool(earn_weights(x, y, trust)[2:].any())
    assert low <= earned / 40 <= high
