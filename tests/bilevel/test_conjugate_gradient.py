"""Conjugate gradient against dense solves."""

import pytest
import torch
from torch import Tensor

from pipeline.bilevel import (
    ConjugateGradient,
    ExactInverse,
    NegativeCurvatureError,
    NonFiniteError,
    SingularHessianError,
    hypergradient,
    hypergradient_with_diagnostics,
)
from pipeline.bilevel.solvers import conjugate_gradient, dense_solve
from tests.bilevel.problems import DOUBLE, Quadratic, flat, random, spd


def solve(a: Tensor, b: Tensor, steps: int, rtol: float = 0.0, damping: float = 0.0) -> Tensor:
    return conjugate_gradient(lambda v: [a @ v[0]], [b], steps, rtol, damping).value[0]


@pytest.mark.parametrize("n", [1, 2, 5, 20])
@pytest.mark.parametrize("damping", [0.0, 0.4])
def test_solves_in_n_steps(n: int, damping: float) -> None:
    a, b = spd(n, seed=n), random(n, seed=n + 1)
    expected = torch.linalg.solve(a + damping * torch.eye(n, dtype=DOUBLE), b)
    torch.testing.assert_close(solve(a, b, n, damping=damping), expected, rtol=0, atol=1e-10)
    torch.testing.assert_close(solve(a, b, 10 * n + 50, damping=damping), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_a_truncated_solve_is_the_best_of_its_krylov_space(steps: int) -> None:
    """x_s minimizes x.Ax/2 - b.x over span(b, Ab, ..., A^(s-1) b), so the last step taken is in the answer."""
    a, b = spd(8, seed=4), random(8, seed=5)
    basis = torch.stack([torch.linalg.matrix_power(a, k) @ b for k in range(steps)], dim=1)
    expected = basis @ torch.linalg.solve(basis.T @ a @ basis, basis.T @ b)
    torch.testing.assert_close(solve(a, b, steps), expected, rtol=0, atol=1e-10)


def test_early_stop_keeps_the_step_that_converged() -> None:
    """Two distinct eigenvalues need two steps; the third is never taken and the second is not lost."""
    a = torch.diag(torch.tensor([1.0, 1.0, 4.0, 4.0], dtype=DOUBLE))
    b = random(4, seed=6)
    count = 0

    def matvec(v: list[Tensor]) -> list[Tensor]:
        nonlocal count
        count += 1
        return [a @ v[0]]

    solution = conjugate_gradient(matvec, [b], steps=50, rtol=1e-12, damping=0.0)
    assert count == 2
    torch.testing.assert_close(solution.value[0], torch.linalg.solve(a, b), rtol=0, atol=1e-13)


@pytest.mark.parametrize("rtol", [1e-1, 1e-3, 1e-6])
def test_stops_at_the_first_residual_below_rtol(rtol: float) -> None:
    a, b = spd(40, seed=7, low=0.01, high=5.0), random(40, seed=8)
    solution = conjugate_gradient(lambda v: [a @ v[0]], [b], 1000, rtol, 0.0)
    norms = solution.trace.norms
    assert norms[-1] <= rtol * norms[0] < min(norms[:-1])
    assert solution.trace.residual == pytest.approx(float((b - a @ solution.value[0]).norm() / b.norm()), rel=1e-6)


def test_a_zero_right_hand_side_needs_no_product() -> None:
    solution = conjugate_gradient(lambda v: pytest.fail("called"), [torch.zeros(3, dtype=DOUBLE)], 5, 1e-5, 0.0)
    assert not solution.value[0].any()
    assert solution.trace.residual == 0.0


def test_indefinite_matrices_raise_unless_damped_enough() -> None:
    a = spd(6, seed=1)
    a = a - 1.0 * torch.eye(6, dtype=DOUBLE)
    b = random(6, seed=2)
    for damping in (0.0, 0.1):
        with pytest.raises(NegativeCurvatureError, match="damping") as caught:
            solve(a, b, 6, damping=damping)
        assert caught.value.curvature <= 0
        assert caught.value.damping == damping
    damped = a + 0.6 * torch.eye(6, dtype=DOUBLE)
    torch.testing.assert_close(solve(a, b, 6, damping=0.6), torch.linalg.solve(damped, b), rtol=0, atol=1e-9)


def test_singular_matrices_raise_though_rounding_leaves_them_a_positive_curvature() -> None:
    """Seed and size for which p.Ap > 0 throughout and the recursion claims a residual of 1e-14 with x = 1e15."""
    with pytest.raises(NegativeCurvatureError):
        solve(spd(5, seed=0, low=0.0, high=2.0), random(5, seed=1), 100, rtol=1e-13)


def test_stops_at_the_roundoff_without_being_told() -> None:
    a, b = spd(10, seed=1), random(10, seed=2)
    solution = conjugate_gradient(lambda v: [a @ v[0]], [b], steps=1000, rtol=0.0, damping=0.0)
    assert len(solution.trace.norms) <= 14
    torch.testing.assert_close(solution.value[0], torch.linalg.solve(a, b), rtol=0, atol=1e-13)


@pytest.mark.parametrize("value", [-2.0, 0.0])
def test_one_by_one_without_positive_curvature(value: float) -> None:
    with pytest.raises(NegativeCurvatureError):
        solve(torch.tensor([[value]], dtype=DOUBLE), torch.ones(1, dtype=DOUBLE), 1)


def test_non_finite_products_raise() -> None:
    a = torch.full((2, 2), torch.nan, dtype=DOUBLE)
    with pytest.raises(NonFiniteError):
        solve(a, torch.ones(2, dtype=DOUBLE), 2)
    with pytest.raises(NonFiniteError):
        dense_solve(lambda v: [a @ v[0]], [torch.ones(2, dtype=DOUBLE)])


@pytest.mark.parametrize("low", [0.2, -1.0])
def test_largest_eigenvalue_from_the_lanczos_matrix(low: float) -> None:
    """A damped indefinite Hessian reports its own eigenvalue, without the damping."""
    a, b = spd(9, seed=3, low=low, high=2.5), random(9, seed=4)
    damping = 0.0 if low > 0 else 1.5
    whole = conjugate_gradient(lambda v: [a @ v[0]], [b], 9, 0.0, damping).trace.lambda_max
    assert whole == pytest.approx(2.5, rel=1e-9)
    partial = conjugate_gradient(lambda v: [a @ v[0]], [b], 3, 0.0, damping).trace.lambda_max
    assert partial is not None
    assert 1.5 < partial < 2.5


def test_as_a_method_on_an_indefinite_problem() -> None:
    p = Quadratic(spd(5, seed=0) - torch.eye(5, dtype=DOUBLE))
    with pytest.raises(NegativeCurvatureError):
        hypergradient(p.inner, p.outer, p.w, p.alpha, ConjugateGradient(steps=5))
    result = hypergradient_with_diagnostics(p.inner, p.outer, p.w, p.alpha, ConjugateGradient(5, 0.0, damping=2.0))
    x = torch.linalg.solve(p.a + 2.0 * torch.eye(5, dtype=DOUBLE), p.v(p.point))
    torch.testing.assert_close(flat(result.indirect), p.b.T @ x, rtol=0, atol=1e-10)
    exact = hypergradient(p.inner, p.outer, p.w, p.alpha, ExactInverse())
    expected = p.direct(p.point) + p.b.T @ torch.linalg.solve(p.a, p.v(p.point))
    torch.testing.assert_close(flat(exact), expected, rtol=0, atol=1e-9)


def test_the_exact_inverse_of_a_singular_hessian_raises() -> None:
    p = Quadratic(spd(5, seed=0, low=0.0))
    with pytest.raises(SingularHessianError):
        hypergradient(p.inner, p.outer, p.w, p.alpha, ExactInverse())
