"""BVFIM in a search: its schedule, one step of it by hand, what it reports and how it stops."""

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pipeline.bilevel import ValueFunction, hypergradient
from pipeline.search.architecture import SearchDiverged
from pipeline.search.methods import Progress, make_method
from pipeline.search_config import SearchConfig
from tests.search.problem import make_search

CONFIG = SearchConfig(method="bvfim", barrier_tau=0.5, barrier_gap=2.0, barrier_decay=1.1, weight_decay=0.2)


def scheduled(alpha_step: int, train_loss: float = 1.5) -> ValueFunction:
    method = make_method(CONFIG, 0.05, Progress(alpha_step, train_loss))
    assert isinstance(method, ValueFunction)
    return method


def test_tau_and_mu2_fall_together_down_to_a_floor() -> None:
    """mu1 = 0: the inner loss holds the decay already."""
    assert scheduled(0) == ValueFunction(0.05, 3, tau=0.5, theta=0.2, mu1=0.0, mu2=3.0)
    later = scheduled(10)
    assert (later.tau, later.mu2) == pytest.approx((0.5 / 1.1**10, 3.0 / 1.1**10))
    last = scheduled(10_000)
    assert (last.tau, last.mu2) == pytest.approx((0.5e-3, 3e-3))
    methods = [scheduled(k) for k in range(0, 80, 4)]
    products = [abs(method.tau * math.log(method.mu2)) for method in methods if isinstance(method.mu2, float)]
    assert products[-1] < 0.01 and all(b < a for a, b in pairwise(products[8:]))


def test_a_training_loss_of_zero_leaves_a_gap() -> None:
    assert scheduled(0, train_loss=0.0).mu2 == pytest.approx(0.02)


def test_the_second_step_is_that_of_the_library(tmp_path: Path) -> None:
    """The validation loss above (the penalty comes after), the decayed training loss below, the schedule at k = 1."""
    settings: dict[str, Any] = {"method": "bvfim", "barrier_decay": 2.0, "gamma": 0.01, "weight_decay": 0.2}
    search, oracle = (make_search(tmp_path, share=0.2, **settings) for _ in range(2))
    for _ in range(3):
        search.advance()
        oracle.advance()
    report = search.advance()
    batch, rate = oracle.losses.prepare(oracle.train.batch(3)), oracle._weight_lr()
    recent = [*oracle.state.losses, oracle._step_weights(batch, rate)]
    state, losses, weights = oracle.state, oracle.losses, list(oracle.losses.supernet.parameters())
    validation = losses.prepare(oracle.validation.batch(1))

    def outer(w: object, a: object) -> Tensor:
        return losses.cross_entropy(validation, state.alphas)

    expected = hypergradient(
        lambda w, a: losses.cross_entropy(batch, state.alphas) + 0.1 * sum((x**2).sum() for x in weights),
        outer,
        weights,
        state.alphas,
        ValueFunction(0.01, 3, tau=0.5, theta=0.2, mu1=0.0, mu2=0.5 * sum(recent) / 2),
        buffers=list(losses.supernet.buffers()),
    )
    assert report is not None
    for ours, theirs in zip(report.gradient.gradient, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-6)


def test_the_history_holds_gap_halvings_and_norms_and_nothing_is_compared(tmp_path: Path) -> None:
    search = make_search(tmp_path, method="bvfim")
    assert search.check_hypergradient() is None
    search.advance()
    report = search.advance()
    assert report is not None
    found = report.record()["hypergradient"]
    assert found["gap"] > 0 and found["halvings"] >= 0 and len(found["norms"]) == 4


def test_a_barrier_that_cannot_be_kept_halves_gamma_five_times_then_stops(tmp_path: Path) -> None:
    search = make_search(tmp_path, method="bvfim", barrier_gap=1e-12)
    search.advance()
    with pytest.raises(SearchDiverged, match=r"5 times in a row.*larger"):
        search.advance()
