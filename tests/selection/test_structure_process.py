"""The process over structure: the mean over all its variances, by dense inverses; it learns from few networks."""

import math
from itertools import product

import numpy as np
import pytest

from pipeline.selection.structure_process import Shapes, StructureProcess, overlap
from pipeline.space.choices import Choices
from pipeline.space.plan import Choice

VARIANCES, NOISES = (0.0, 0.1, 0.3, 1.0), (0.1, 0.2, 0.4, 0.8, 1.2)


def choices(*operations: str) -> Choices:
    return frozenset(Choice("cell", edge, operation) for edge, operation in enumerate(operations))


def drawn(count: int, rng: np.random.Generator) -> Shapes:
    names = [choices(*rng.choice(["a", "b"], size=3)) for _ in range(count)]
    return Shapes(rng.normal(size=(count, 2)), names)


def part(shapes: Shapes, rows: range) -> Shapes:
    return Shapes(shapes.counts[rows], [shapes.choices[row] for row in rows])


def test_predictions_are_the_mean_over_all_variances_by_their_likelihood() -> None:
    """Mean k (K + σ² I)⁻¹ y and variance k(x, x) − k (K + σ² I)⁻¹ kᵀ of every process, mixed by marginal likelihood."""
    rng = np.random.default_rng(8)
    shapes, y = drawn(12, rng), rng.normal(size=9)
    scaled = (shapes.counts - shapes.counts[:9].mean(0)) / (shapes.counts[:9].std(0) + 1e-9)

    def covariance(one: int, other: int, smooth: float, shared: float) -> float:
        distance = ((scaled[one] - scaled[other]) ** 2).mean()
        names = shapes.choices[one], shapes.choices[other]
        return smooth * math.exp(-distance / 2) + shared * len(names[0] & names[1]) / len(names[0] | names[1])

    likelihoods, means, variances, deviations = [], [], [], []
    for smooth, shared, noise in product(VARIANCES, VARIANCES, NOISES):
        k = np.array([[covariance(a, b, smooth, shared) for b in range(9)] for a in range(12)])
        full = k[:9] + noise * np.eye(9)
        inverse = np.linalg.inv(full)
        likelihoods.append(math.exp(-y @ inverse @ y / 2 - np.linalg.slogdet(full)[1] / 2))
        means.append(k[9:] @ inverse @ y)
        variances.append(smooth + shared - np.einsum("ij,jk,ik->i", k[9:], inverse, k[9:]))
        deviations.append(math.sqrt(smooth + shared))
    kept = np.array(likelihoods) >= 1e-3 * max(likelihoods)
    share = np.where(kept, likelihoods, 0.0) / np.array(likelihoods)[kept].sum()
    assert kept.sum() > 20, "so few values leave many processes likely"
    process = StructureProcess(part(shapes, range(9)), y)
    found = process.predict(part(shapes, range(9, 12)))
    expected = share @ np.array(means)
    np.testing.assert_allclose(found.mean, expected, atol=1e-12)
    spread = share @ (np.array(variances) + np.square(means)) - expected**2
    np.testing.assert_allclose(found.deviation, np.sqrt(spread), atol=1e-10)
    assert process.deviation == pytest.approx(share @ np.array(deviations))


def test_a_known_network_is_surer_than_a_new_one_and_noise_moves_no_new_one_far() -> None:
    rng = np.random.default_rng(3)
    shapes = drawn(60, rng)
    process = StructureProcess(part(shapes, range(40)), shapes.counts[:40, 0])
    known, new = process.predict(part(shapes, range(40))), process.predict(part(shapes, range(40, 60)))
    assert known.deviation.mean() < new.deviation.mean()
    assert np.corrcoef(new.mean, shapes.counts[40:, 0])[0, 1] > 0.9
    noise = StructureProcess(part(shapes, range(40)), rng.normal(size=40)).predict(part(shapes, range(40, 60)))
    assert np.abs(noise.mean).mean() < 0.4


def test_overlap() -> None:
    assert overlap(choices("a", "b"), choices("a", "c")) == pytest.approx(1 / 3)
    assert overlap(choices(), choices()) == 1.0
