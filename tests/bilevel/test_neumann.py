"""The Neumann series: its partial sums, its bound, its relatives and its failures."""

import math

import pytest
import torch

from pipeline.bilevel import (
    DivergenceError,
    ExactInverse,
    Neumann,
    NonFiniteError,
    OneStepUnroll,
    StepTooSmallError,
    TruncatedReverse,
    hypergradient,
    hypergradient_with_diagnostics,
)
from tests.bilevel.problems import DOUBLE, Curved, Quadratic, flat, spd

GAMMA = 0.3


def powers(matrix: torch.Tensor, gamma: float, count: int) -> list[torch.Tensor]:
    step = torch.eye(len(matrix), dtype=DOUBLE) - gamma * matrix
    return [torch.linalg.matrix_power(step, k) for k in range(count)]


@pytest.mark.parametrize("terms", range(21))
def test_partial_sum(terms: int) -> None:
    """On a problem whose derivatives all vary, against dense matrices from torch.func and the formula."""
    p = Curved()
    hessian, mixed = p.hessian(), p.mixed()
    (v,) = torch.autograd.grad(p.outer([x := flat(p.w).detach().requires_grad_()], p.alpha), x)
    expected = -GAMMA * mixed @ torch.stack(list(powers(hessian, GAMMA, terms + 1))).sum(0) @ v
    result = hypergradient_with_diagnostics(p.inner, p.outer, p.w, p.alpha, Neumann(GAMMA, terms))
    torch.testing.assert_close(flat(result.indirect), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("terms", range(0, 21, 4))
def test_theorem_1_bound(terms: int) -> None:
    """||error|| <= ||M|| ||V_0|| (1 - gamma mu)^(K+1) / mu, and the bound is not idle: a tenth of it is exceeded."""
    mu = 0.5
    p = Quadratic(spd(7, seed=1, low=mu, high=3.0))
    exact = flat(hypergradient(p.inner, p.outer, p.w, p.alpha, ExactInverse()))
    error = (exact - flat(hypergradient(p.inner, p.outer, p.w, p.alpha, Neumann(GAMMA, terms)))).norm()
    bound = torch.linalg.matrix_norm(p.b, 2) * p.v(p.point).norm() / mu * (1 - GAMMA * mu) ** (terms + 1)
    assert bound / 10 < error <= bound


def test_zero_terms_is_the_one_step_unroll() -> None:
    p = Curved()
    one_step = flat(hypergradient(p.inner, p.outer, p.w, p.alpha, OneStepUnroll(GAMMA)))
    torch.testing.assert_close(
        flat(hypergradient(p.inner, p.outer, p.w, p.alpha, Neumann(GAMMA, 0))), one_step, rtol=0, atol=1e-13
    )


@pytest.mark.parametrize("terms", [0, 1, 4])
def test_corollary_2_at_a_stationary_point(terms: int) -> None:
    """There K terms are the reverse mode truncated to its last K+1 steps, and to no other number of steps."""
    p = Quadratic(spd(6, seed=9))
    w = p.weights(p.solution())
    series = flat(hypergradient(p.inner, p.outer, w, p.alpha, Neumann(GAMMA, terms)))
    truncated = [flat(hypergradient(p.inner, p.outer, w, p.alpha, TruncatedReverse(GAMMA, 9, k))) for k in range(1, 8)]
    torch.testing.assert_close(truncated[terms], series, rtol=0, atol=1e-10)
    assert all((other - series).norm() > 1e-3 for k, other in enumerate(truncated) if k != terms)


@pytest.mark.parametrize("products", ["exact", "finite_difference"])
def test_diagnostics(products: str) -> None:
    p = Quadratic(spd(7, seed=5))
    terms, v = 3, p.v(p.point)
    method = Neumann(GAMMA, terms, products=products)  # type: ignore[arg-type]
    result = hypergradient_with_diagnostics(p.inner, p.outer, p.w, p.alpha, method)
    x = GAMMA * torch.stack(list(powers(p.a, GAMMA, terms + 1))).sum(0) @ v
    found = result.diagnostics
    assert found.residual == pytest.approx(float((v - p.a @ x).norm() / v.norm()), abs=1e-9)
    assert found.norms == pytest.approx([float((m @ v).norm()) for m in powers(p.a, GAMMA, terms + 1)], abs=1e-8)
    assert found.direct_norm == pytest.approx(float(p.direct(p.point).norm()), abs=1e-10)
    assert found.indirect_norm == pytest.approx(float((p.b.T @ x).norm()), abs=1e-8)
    inner_gradient = p.a @ p.point - p.b @ flat(p.alpha).detach()
    assert result.inner_gradient is not None
    torch.testing.assert_close(flat(result.inner_gradient), inner_gradient, rtol=0, atol=1e-12)


@pytest.mark.parametrize("high", [1e-3, 0.9, 6.0])
@pytest.mark.parametrize("n", [1, 2])
def test_largest_eigenvalue_is_found_on_a_whole_krylov_space(n: int, high: float) -> None:
    p = Quadratic(spd(n, seed=2, low=high if n == 1 else high / 10, high=high))
    found = hypergradient_with_diagnostics(p.inner, p.outer, p.w, p.alpha, Neumann(GAMMA, 1)).diagnostics
    assert found.gamma_lambda_max == pytest.approx(GAMMA * high, rel=1e-8)
    assert found.lambda_max == pytest.approx(high, rel=1e-8)


@pytest.mark.parametrize("high", [1e-3, 0.9, 6.0])
@pytest.mark.parametrize("terms", [1, 2, 5, 20])
def test_largest_eigenvalue_is_estimated_from_below(terms: int, high: float) -> None:
    p = Quadratic(spd(30, seed=2, low=high / 10, high=high))
    found = hypergradient_with_diagnostics(p.inner, p.outer, p.w, p.alpha, Neumann(GAMMA, terms)).diagnostics
    assert found.gamma_lambda_max is not None
    assert 0.7 * GAMMA * high < found.gamma_lambda_max <= GAMMA * high * (1 + 1e-9)


def test_divergence_raises_from_ten_times_the_first_norm_on() -> None:
    """|1 - gamma lambda| = 2 on the only eigenvalue: 8 times the norm after 3 terms is allowed, 16 after 4 is not."""
    p = Quadratic(10.0 * torch.eye(4, dtype=DOUBLE))
    result = hypergradient_with_diagnostics(p.inner, p.outer, p.w, p.alpha, Neumann(GAMMA, 3))
    assert [n / result.diagnostics.norms[0] for n in result.diagnostics.norms] == pytest.approx([1, 2, 4, 8])
    with pytest.raises(DivergenceError, match="smaller gamma") as caught:
        hypergradient(p.inner, p.outer, p.w, p.alpha, Neumann(GAMMA, 4))
    assert caught.value.gamma == GAMMA
    assert caught.value.norms[-1] == pytest.approx(16 * caught.value.norms[0])


@pytest.mark.parametrize("products", ["exact", "finite_difference"])
@pytest.mark.parametrize("where", ["inner", "outer"])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_non_finite_raises(products: str, where: str, bad: float) -> None:
    p = Quadratic(spd(5, seed=0))
    (p.a if where == "inner" else p.q_matrix)[0, 0] = bad
    with pytest.raises(NonFiniteError):
        hypergradient(p.inner, p.outer, p.w, p.alpha, Neumann(GAMMA, 2, products=products))  # type: ignore[arg-type]


@pytest.mark.parametrize(("difference", "order"), [("one_sided", 1), ("central", 2)])
def test_order_of_the_difference(difference: str, order: int) -> None:
    """Ten times the step gives 10 or 100 times the error."""
    p = Curved()
    exact = flat(hypergradient(p.inner, p.outer, p.w, p.alpha, Neumann(GAMMA, 3)))
    errors = [
        (flat(hypergradient(p.inner, p.outer, p.w, p.alpha, method)) - exact).norm()
        for step in (1e-3, 1e-2)
        if (method := Neumann(GAMMA, 3, "finite_difference", step, difference))  # type: ignore[arg-type]
    ]
    assert errors[1] / errors[0] == pytest.approx(10.0**order, rel=0.05)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_step_does_not_depend_on_the_scale_of_the_outer_loss(scale: float) -> None:
    """||epsilon V|| = step, so a scaled outer loss gives the scaled hypergradient, rounding included."""
    p = Curved()
    method = Neumann(GAMMA, 2, "finite_difference")
    plain = flat(hypergradient(p.inner, p.outer, p.w, p.alpha, method))
    scaled = hypergradient(p.inner, lambda w, alpha: scale * p.outer(w, alpha), p.w, p.alpha, method)
    torch.testing.assert_close(flat(scaled) / scale, plain, rtol=1e-9, atol=0)


def test_a_step_lost_in_rounding_raises() -> None:
    p = Curved()
    with pytest.raises(StepTooSmallError, match="larger"):
        hypergradient(p.inner, p.outer, p.w, p.alpha, Neumann(GAMMA, 1, "finite_difference", step=1e-16))


def test_costs_in_gradients() -> None:
    """One outer gradient; one inner graph (exact), K+2 inner gradients (one-sided) or 2(K+1) (central)."""
    p = Curved()
    calls: list[str] = []

    def inner(w, alpha):
        calls.append("inner")
        return p.inner(w, alpha)

    def outer(w, alpha):
        calls.append("outer")
        return p.outer(w, alpha)

    for method, expected in [
        (Neumann(GAMMA, 2), 1),
        (Neumann(GAMMA, 2, "finite_difference"), 4),
        (Neumann(GAMMA, 2, "finite_difference", difference="central"), 6),
    ]:
        for compute in (hypergradient, hypergradient_with_diagnostics):
            calls.clear()
            compute(inner, outer, p.w, p.alpha, method)
            assert calls.count("inner") == expected
            assert calls.count("outer") == 1
