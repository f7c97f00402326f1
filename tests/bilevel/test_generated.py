"""Problems made by hypothesis: the identities must hold for every size, spectrum and step."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pipeline.bilevel import (
    ConjugateGradient,
    ExactInverse,
    NegativeCurvatureError,
    Neumann,
    OneStepUnroll,
    ReverseMode,
    hypergradient,
    hypergradient_with_diagnostics,
)
from pipeline.bilevel.solvers import conjugate_gradient
from tests.bilevel.problems import DOUBLE, Curved, Quadratic, flat, random, spd

SEEDS = st.integers(0, 10_000)
SIZES = st.integers(1, 8)
UNHURRIED = settings(deadline=None, max_examples=40, derandomize=True)


def close(found: Tensor, expected: Tensor, relative: float) -> bool:
    return float((found - expected).norm()) <= relative * max(1.0, float(expected.norm()))


@UNHURRIED
@given(SEEDS, SIZES, SIZES, st.floats(0.05, 2.0), st.floats(0.0, 8.0))
def test_inverse_methods_agree_with_a_dense_solve(seed: int, n: int, m: int, low: float, spread: float) -> None:
    p = Quadratic(spd(n, seed, low, low + spread), seed, m)
    expected = p.b.T @ torch.linalg.solve(p.a, p.v(p.point))
    for method in (ExactInverse(), ConjugateGradient(steps=10 * n, rtol=0.0)):
        result = hypergradient_with_diagnostics(p.inner, p.outer, p.w, p.alpha, method)
        assert close(flat(result.direct), p.direct(p.point), 1e-10)
        assert close(flat(result.indirect), expected, 1e-10)


@UNHURRIED
@given(SEEDS, SIZES, SIZES, st.integers(0, 12), st.floats(0.05, 1.9))
def test_neumann_is_its_partial_sum(seed: int, n: int, m: int, terms: int, gamma_lambda: float) -> None:
    """Also for gamma beyond 1 / lambda_max, where the terms alternate, and for indefinite matrices."""
    high = 3.0
    p = Quadratic(spd(n, seed, -0.2, high), seed, m)
    gamma = gamma_lambda / high
    step = torch.eye(n, dtype=DOUBLE) - gamma * p.a
    x, v = torch.zeros(n, dtype=DOUBLE), p.v(p.point)
    for _ in range(terms + 1):
        x, v = x + gamma * v, step @ v
    result = hypergradient_with_diagnostics(p.inner, p.outer, p.w, p.alpha, Neumann(gamma, terms))
    assert close(flat(result.indirect), p.b.T @ x, 1e-10)
    assert result.diagnostics.residual == pytest.approx(float(v.norm() / p.v(p.point).norm()), abs=1e-10)
    differences = Neumann(gamma, terms, "finite_difference", step=1e-2)
    result = hypergradient_with_diagnostics(p.inner, p.outer, p.w, p.alpha, differences)
    assert close(flat(result.indirect), p.b.T @ x, 1e-8)


@UNHURRIED
@given(SEEDS, st.integers(1, 6), st.floats(0.01, 0.4))
def test_reverse_mode_is_autograd_through_the_loop(seed: int, steps: int, gamma: float) -> None:
    p = Curved(seed)
    alpha = [a.detach().clone().requires_grad_() for a in p.alpha]
    w = flat(p.w).detach().requires_grad_()
    for _ in range(steps):
        w = w - gamma * torch.autograd.grad(p.inner([w], alpha), w, create_graph=True)[0]
    expected = flat(torch.autograd.grad(p.outer([w], alpha), alpha))
    assert close(flat(hypergradient(p.inner, p.outer, p.w, p.alpha, ReverseMode(gamma, steps))), expected, 1e-10)


@UNHURRIED
@given(SEEDS, st.floats(0.01, 0.4))
def test_one_step_is_zero_terms(seed: int, gamma: float) -> None:
    p = Curved(seed)
    one_step = flat(hypergradient(p.inner, p.outer, p.w, p.alpha, OneStepUnroll(gamma)))
    assert close(flat(hypergradient(p.inner, p.outer, p.w, p.alpha, Neumann(gamma, 0))), one_step, 1e-13)


@UNHURRIED
@given(SEEDS, SIZES, st.floats(-3.0, 1.0), st.just(0.0) | st.floats(1e-6, 2.0))
def test_conjugate_gradient_solves_or_raises(seed: int, n: int, low: float, damping: float) -> None:
    """It raises only where the matrix is not positive definite; where it returns, it has solved to its residual."""
    a, b = spd(n, seed, low, 2.0), random(n, seed=seed + 1)
    whole = a + damping * torch.eye(n, dtype=DOUBLE)
    smallest = float(torch.linalg.eigvalsh(whole)[0])
    try:
        solution = conjugate_gradient(lambda v: [a @ v[0]], [b], 20 * n, 1e-13, damping)
    except NegativeCurvatureError:
        assert smallest < 1e-9
        return
    assert solution.trace.residual is not None
    true_residual = float((b - whole @ solution.value[0]).norm() / b.norm())
    assert true_residual <= 100 * solution.trace.residual + 1e-13
    assert solution.trace.residual <= 1e-3
