"""Every method against the closed form of ridge regression with one weight decay per coordinate, at its solution."""

import pytest
import torch

from pipeline.bilevel import (
    T1T2,
    ConjugateGradient,
    DirectOnly,
    ExactInverse,
    Method,
    Neumann,
    OneStepUnroll,
    ReverseMode,
    TruncatedReverse,
    hypergradient_with_diagnostics,
)
from tests.bilevel.problems import DOUBLE, Ridge, flat

GAMMA = 0.1
EYE = torch.eye(6, dtype=DOUBLE)


@pytest.mark.parametrize("seed", [0, 100])
@pytest.mark.parametrize(
    ("method", "terms"),
    [
        (DirectOnly(), 0),
        (ExactInverse(), None),
        (OneStepUnroll(GAMMA), 1),
        (T1T2(), -1),
        (Neumann(GAMMA, 4), 5),
        (Neumann(GAMMA, 4, products="finite_difference", difference="central"), 5),
        (ConjugateGradient(steps=20, rtol=1e-14), None),
        (ReverseMode(GAMMA, 5), 5),
        (TruncatedReverse(GAMMA, 9, 5), 5),
    ],
    ids=repr,
)
def test_ridge(method: Method, terms: int | None, seed: int) -> None:
    """`terms` counts the Neumann terms that the method amounts to at w*: None is all of them, -1 the identity."""
    p = Ridge(seed)
    if terms is None:
        inverse = torch.linalg.inv(p.hessian)
    elif terms == -1:
        inverse = EYE
    else:
        inverse = GAMMA * sum((torch.linalg.matrix_power(EYE - GAMMA * p.hessian, k) for k in range(terms)), 0 * EYE)
    result = hypergradient_with_diagnostics(p.inner, p.outer, p.w, p.alpha, method)
    torch.testing.assert_close(flat(result.direct), p.direct, rtol=0, atol=1e-10)
    torch.testing.assert_close(flat(result.indirect), -p.mixed @ inverse @ p.v, rtol=0, atol=1e-10)


@pytest.mark.parametrize("step", [1e-1, 1e-3])
def test_one_sided_difference_including_its_error(step: float) -> None:
    """dL1/dalpha = e^alpha w^2/2, so a difference with ||epsilon V|| = step gives e^alpha (wV + epsilon V^2/2)."""
    p = Ridge()
    expected, v = torch.zeros(6, dtype=DOUBLE), p.v
    for _ in range(5):
        expected += GAMMA * p.decay * (p.point * v + step / v.norm() * v**2 / 2)
        v = v - GAMMA * p.hessian @ v
    method = Neumann(GAMMA, 4, products="finite_difference", step=step)
    result = hypergradient_with_diagnostics(p.inner, p.outer, p.w, p.alpha, method)
    torch.testing.assert_close(flat(result.indirect), -expected, rtol=0, atol=1e-10)
