"""Every method against its closed form on a quadratic problem with direct and mixed terms in the outer loss."""

import pytest
import torch
from torch import Tensor

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
    hypergradient,
    hypergradient_with_diagnostics,
)
from tests.bilevel.problems import DOUBLE, Quadratic, flat, spd

GAMMA = 0.3
N = 7
EYE = torch.eye(N, dtype=DOUBLE)


def problem() -> Quadratic:
    return Quadratic(spd(N, seed=3))


def neumann_sum(p: Quadratic, terms: int) -> Tensor:
    return GAMMA * sum(torch.linalg.matrix_power(EYE - GAMMA * p.a, k) for k in range(terms + 1))


def approximate_inverses(p: Quadratic) -> list[tuple[Method, Tensor]]:
    return [
        (DirectOnly(), 0 * EYE),
        (ExactInverse(), torch.linalg.inv(p.a)),
        (OneStepUnroll(GAMMA), GAMMA * EYE),
        (T1T2(), EYE),
        (Neumann(GAMMA, 3), neumann_sum(p, 3)),
        (Neumann(GAMMA, 3, products="finite_difference"), neumann_sum(p, 3)),
        (Neumann(GAMMA, 3, products="finite_difference", difference="central"), neumann_sum(p, 3)),
        (ConjugateGradient(steps=N, rtol=0.0), torch.linalg.inv(p.a)),
        (ConjugateGradient(steps=N, rtol=0.0, damping=0.7), torch.linalg.inv(p.a + 0.7 * EYE)),
    ]


CASES = range(len(approximate_inverses(problem())))


@pytest.mark.parametrize("case", CASES)
def test_implicit_methods_return_direct_minus_mixed_times_x(case: int) -> None:
    p = problem()
    method, inverse = approximate_inverses(p)[case]
    result = hypergradient_with_diagnostics(p.inner, p.outer, p.w, p.alpha, method)
    indirect = p.b.T @ inverse @ p.v(p.point)
    # a difference of two gradients of size 10 over a step of 1e-3 keeps 11 digits
    tolerance = 1e-10 if not isinstance(method, Neumann) or method.products == "exact" else 1e-9
    torch.testing.assert_close(flat(result.direct), p.direct(p.point), rtol=0, atol=1e-10)
    torch.testing.assert_close(flat(result.indirect), indirect, rtol=0, atol=tolerance)
    torch.testing.assert_close(flat(result.gradient), p.direct(p.point) + indirect, rtol=0, atol=tolerance)
    assert [g.shape for g in result.gradient] == [a.shape for a in p.alpha]


@pytest.mark.parametrize("case", CASES)
def test_without_diagnostics_the_gradient_is_the_same(case: int) -> None:
    p = problem()
    method, _ = approximate_inverses(p)[case]
    plain = hypergradient(p.inner, p.outer, p.w, p.alpha, method)
    torch.testing.assert_close(
        flat(plain),
        flat(hypergradient_with_diagnostics(p.inner, p.outer, p.w, p.alpha, method).gradient),
        rtol=0,
        atol=1e-12,
    )


@pytest.mark.parametrize(
    "method", [ExactInverse(), Neumann(GAMMA, 300), ConjugateGradient(N, 0.0), ReverseMode(GAMMA, 300)], ids=repr
)
def test_at_the_solution_it_is_the_derivative_of_the_outer_loss_along_the_solution(method: Method) -> None:
    p = problem()
    w = p.weights(p.solution())
    alpha = flat(p.alpha).detach().requires_grad_()
    (total,) = torch.autograd.grad(p.outer([torch.linalg.solve(p.a, p.b @ alpha)], [alpha]), alpha)
    torch.testing.assert_close(flat(hypergradient(p.inner, p.outer, w, p.alpha, method)), total, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("steps", "last"), [(1, 1), (5, 5), (5, 2), (5, 1)])
def test_unrolled_methods_match_the_linear_recursion(steps: int, last: int) -> None:
    p = problem()
    step, x = EYE - GAMMA * p.a, p.point
    for _ in range(steps):
        x = x - GAMMA * (p.a @ x - p.b @ flat(p.alpha).detach())
    series = GAMMA * sum(torch.linalg.matrix_power(step, k) for k in range(last))
    expected = p.b.T @ series @ p.v(x)
    methods: list[Method] = [TruncatedReverse(GAMMA, steps, last)]
    methods += [ReverseMode(GAMMA, steps)] if last == steps else []
    for method in methods:
        result = hypergradient_with_diagnostics(p.inner, p.outer, p.w, p.alpha, method)
        torch.testing.assert_close(flat(result.direct), p.direct(x), rtol=0, atol=1e-10)
        torch.testing.assert_close(flat(result.indirect), expected, rtol=0, atol=1e-10)
