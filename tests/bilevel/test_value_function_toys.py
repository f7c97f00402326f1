"""Bilevel problems on which implicit gradients fail and the value function does not, solved to their known optima."""

import math
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from pipeline.bilevel import (
    ExactInverse,
    Method,
    Neumann,
    ReverseMode,
    SingularHessianError,
    ValueFunction,
    hypergradient,
    hypergradient_with_diagnostics,
)
from tests.bilevel.problems import DOUBLE

STARTS = [(0.0, 0.0), (3.0, 3.0), (0.0, 5.0), (5.0, -5.0)]


def leaf(*values: float) -> Tensor:
    return torch.tensor(values, dtype=DOUBLE).requires_grad_()


class Sine:
    """f = sum_i sin(x + y_i - 2), F = (x - 2)^2 + |y - 4|^2: the lower solutions are x + y_i - 2 = -pi/2 + 2 pi k."""

    def __init__(self, n: int, x: float, y: float) -> None:
        self.n, self.x, self.y = n, leaf(x), leaf(*[y] * n)

    def inner(self, w: Sequence[Tensor], alpha: Sequence[Tensor]) -> Tensor:
        return (alpha[0] + w[0] - 2).sin().sum()

    def outer(self, w: Sequence[Tensor], alpha: Sequence[Tensor]) -> Tensor:
        return ((alpha[0] - 2) ** 2).sum() + ((w[0] - 4) ** 2).sum()

    def optimum(self, branch: float) -> float:
        """x of the best point with x + y_i - 2 = branch."""
        return ((1 - self.n) * 2 + self.n * branch) / (1 + self.n)

    def descend_lower(self, steps: int, decay: float = 0.0) -> None:
        """Gradient steps of 0.01 on f + decay/2 |y|^2."""
        with torch.no_grad():
            for _ in range(steps):
                self.y -= 0.01 * ((self.x + self.y - 2).cos() + decay * self.y)


def solve_by_barrier(p: Sine, rounds: int, decay: float, lower_steps: int, steps: int, rate: float) -> list[Tensor]:
    """(tau, theta, mu1, mu2) = (1, 1, 1, 4n) / decay^k: no hill of f is higher than 2n; y goes on where it was."""
    adam, y = torch.optim.Adam([p.x], lr=rate), None
    for share in (decay**-k for k in range(rounds)):
        p.descend_lower(lower_steps, decay=share)
        method = ValueFunction(0.01, steps, tau=share, theta=share, mu1=share, mu2=4 * p.n * share, start=y)
        result = hypergradient_with_diagnostics(p.inner, p.outer, [p.y], [p.x], method)
        p.x.grad, y = result.gradient[0], result.end
        adam.step()
    assert y is not None
    return y


def require_optimum(p: Sine, y: list[Tensor]) -> None:
    best = p.optimum(branch=1.5 * math.pi)
    assert best == pytest.approx({1: 2.3562, 2: 2.4749}[p.n], abs=1e-4)
    assert abs(p.x.item() - best) <= 0.03 * best
    assert p.inner(y, [p.x]).item() <= -0.995 * p.n


@pytest.mark.parametrize("start", STARTS)
def test_sine(start: tuple[float, float]) -> None:
    """A schedule twice as fast as the supplement's, enough for n = 1."""
    p = Sine(1, *start)
    require_optimum(p, solve_by_barrier(p, rounds=400, decay=1.02, lower_steps=25, steps=10, rate=0.02))


@pytest.mark.slow
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("n", [1, 2])
def test_sine_by_the_schedule_of_the_benchmark(n: int, start: tuple[float, float]) -> None:
    p = Sine(n, *start)
    require_optimum(p, solve_by_barrier(p, rounds=500, decay=1.016, lower_steps=25, steps=8, rate=0.02))


@pytest.mark.parametrize("method", [ExactInverse(), Neumann(0.5, 8), ReverseMode(0.5, 8)], ids=repr)
def test_derivatives_through_the_lower_solution_stay_on_the_wrong_branch(method: Method) -> None:
    p = Sine(1, 0.0, 0.0)
    adam = torch.optim.Adam([p.x], lr=0.05)
    for _ in range(250):
        p.descend_lower(25)
        p.x.grad = hypergradient(p.inner, p.outer, [p.y], [p.x], method)[0]
        adam.step()
    p.descend_lower(2000)
    assert p.x.item() == pytest.approx(p.optimum(branch=-0.5 * math.pi), abs=1e-2)
    assert p.outer([p.y], [p.x]).item() == pytest.approx(15.52, abs=0.05)


class Free:
    """f = y1^2 / 2 - x y1 with y2 free, F = (x - y2)^2 / 2 + (y1 - 1)^2 / 2: the best is x = y1 = y2 = 1."""

    def __init__(self, x: float) -> None:
        self.x, self.y = leaf(x), leaf(0.0, 0.0)

    def inner(self, w: Sequence[Tensor], alpha: Sequence[Tensor]) -> Tensor:
        return (w[0][0] ** 2 / 2 - alpha[0] * w[0][0]).sum()

    def outer(self, w: Sequence[Tensor], alpha: Sequence[Tensor]) -> Tensor:
        return ((alpha[0] - w[0][1]) ** 2 / 2 + (w[0][0] - 1) ** 2 / 2).sum()

    def minimize(self, method: Callable[[int, list[Tensor] | None], Method], rounds: int) -> list[Tensor] | None:
        adam, y = torch.optim.Adam([self.x], lr=0.05), None
        for k in range(rounds):
            with torch.no_grad():
                self.y[0] = self.x[0]
            result = hypergradient_with_diagnostics(self.inner, self.outer, [self.y], [self.x], method(k, y))
            self.x.grad, y = result.gradient[0], result.end
            adam.step()
        return y


@pytest.mark.parametrize("start", [0.0, 3.0])
def test_a_lower_level_with_many_solutions(start: float) -> None:
    p = Free(start)

    def method(k: int, y: list[Tensor] | None) -> Method:
        share = max(1.03**-k, 1e-4)
        return ValueFunction(0.2, 4, tau=share, theta=0.0, mu1=0.0, mu2=share, start=y)

    y = p.minimize(method, rounds=400)
    assert y is not None
    assert [p.x.item(), *y[0].tolist()] == pytest.approx([1.0, 1.0, 1.0], abs=1e-3)


def test_the_same_by_derivatives_of_the_lower_solution() -> None:
    with pytest.raises(SingularHessianError):
        Free(0.0).minimize(lambda k, y: ExactInverse(), rounds=1)
    p = Free(0.0)
    p.minimize(lambda k, y: ReverseMode(0.5, 8), rounds=200)
    assert p.x.item() == pytest.approx(0.5, abs=1e-2)
