"""What BVFIM refuses, and what it says then."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from pipeline.bilevel import BarrierError, NonFiniteError, ValueFunction, hypergradient, hypergradient_with_diagnostics
from tests.bilevel.problems import DOUBLE, Curved, flat

TAU, THETA, MU1, MU2 = 0.3, 0.2, 0.1, 0.5
GOOD = ValueFunction(0.01, 2, TAU, THETA, MU1, MU2)


def test_a_loss_that_is_not_deterministic_is_refused() -> None:
    p, values = Curved(), iter(range(100))
    with pytest.raises(BarrierError, match="two values at one point"):
        hypergradient(lambda w, a: p.inner(w, a) + 10 * next(values), p.outer, p.w, p.alpha, GOOD)


def test_a_mu2_below_the_rounding_of_the_loss_is_refused() -> None:
    w, alpha = [torch.ones(3).requires_grad_()], [torch.ones(3).requires_grad_()]

    def inner(w: Sequence[Tensor], alpha: Sequence[Tensor]) -> Tensor:
        return 100.0 + ((w[0] - alpha[0]) ** 2).sum()

    with pytest.raises(BarrierError, match="larger"):
        hypergradient(inner, lambda w, a: w[0].sum(), w, alpha, ValueFunction(0.01, 2, TAU, THETA, 0.0, 1e-6))
    hypergradient(inner, lambda w, a: w[0].sum(), w, alpha, ValueFunction(0.01, 2, TAU, THETA, 0.0, 1e-2))


def test_without_an_admissible_step_it_says_so() -> None:
    """The gradient of this outer loss points up."""
    p = Curved()

    def outer(w: Sequence[Tensor], alpha: Sequence[Tensor]) -> Tensor:
        value = 1e3 * flat(w).sum()
        return 2 * value.detach() - value

    with pytest.raises(BarrierError, match="smaller step"):
        hypergradient(p.inner, outer, p.w, p.alpha, GOOD)


def test_a_negative_level_is_refused_by_the_adaptive_form() -> None:
    p = Curved()
    with pytest.raises(BarrierError, match="add a constant"):
        hypergradient(lambda w, a: p.inner(w, a) - 1e3, p.outer, p.w, p.alpha, replace(GOOD, mu2="adaptive"))


@pytest.mark.parametrize("which", ["inner", "outer"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_losses_that_are_not_finite_are_refused(which: str, value: float) -> None:
    p = Curved()
    losses = {"inner": p.inner, "outer": p.outer}
    sound = losses[which]
    losses[which] = lambda w, a: sound(w, a) + value  # type: ignore[assignment]
    with pytest.raises(NonFiniteError):
        hypergradient(losses["inner"], losses["outer"], p.w, p.alpha, GOOD)


def test_a_trial_that_is_not_finite_is_halved() -> None:
    """The logarithm ends at w = 0, which the first trial crosses."""
    w, alpha = (
        [torch.tensor([1.0], dtype=DOUBLE).requires_grad_()],
        [torch.tensor([1.0], dtype=DOUBLE).requires_grad_()],
    )
    result = hypergradient_with_diagnostics(
        lambda w, a: 0.1 * (w[0] * a[0]).sum(),
        lambda w, a: (3 * w[0] - w[0].log()).sum(),
        w,
        alpha,
        ValueFunction(1.0, 1, 1e-3, 0.0, 0.0, 1.0),
    )
    assert result.diagnostics.halvings and result.end is not None and float(result.end[0]) > 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"steps": 0},
        {"step": 0.0},
        {"tau": 0.0},
        {"tau": math.nan},
        {"theta": -1.0},
        {"mu1": -1.0},
        {"mu2": 0.0},
        {"mu2": "adapted"},
    ],
    ids=repr,
)
def test_refused_settings(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} must"):
        replace(GOOD, **wrong)  # type: ignore[arg-type]
