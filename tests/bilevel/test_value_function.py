"""BVFIM against its value function: the envelope gradient, the descent step by step."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from pipeline.bilevel import (
    HypergradientResult,
    ValueFunction,
    hypergradient,
    hypergradient_with_diagnostics,
)
from tests.bilevel.problems import DOUBLE, Curved, flat, random

TAU, THETA, MU1, MU2 = 0.3, 0.2, 0.1, 0.5


@dataclass
class Tracking:
    """f = |y - Bx|^2 / 2 and F = |y - c|^2 / 2 + |x - d|^2 / 2, so z = Bx / (1 + mu1)."""

    def __post_init__(self) -> None:
        self.b, self.c, self.d = random(4, 3, seed=0), random(4, seed=1), random(3, seed=2)
        self.x = random(3, seed=3).requires_grad_()

    def inner(self, w: Sequence[Tensor], alpha: Sequence[Tensor]) -> Tensor:
        return ((w[0] - self.b @ alpha[0]) ** 2).sum() / 2

    def outer(self, w: Sequence[Tensor], alpha: Sequence[Tensor]) -> Tensor:
        return ((w[0] - self.c) ** 2).sum() / 2 + ((alpha[0] - self.d) ** 2).sum() / 2

    def z(self, x: Tensor) -> Tensor:
        return self.b @ x / (1 + MU1)

    def ceiling(self, x: Tensor) -> Tensor:
        """f_mu(x)"""
        z = self.z(x)
        return ((z - self.b @ x) ** 2).sum() / 2 + MU1 / 2 * z @ z + MU2

    def y(self, x: Tensor) -> Tensor:
        """The minimizer of phi by Newton's method: phi' = y - c + theta y + tau r / gap with r = y - Bx."""
        y, eye = self.z(x), torch.eye(4, dtype=DOUBLE)
        for _ in range(60):
            r = y - self.b @ x
            gap = self.ceiling(x) - r @ r / 2
            slope = y - self.c + THETA * y + TAU * r / gap
            hessian = (1 + THETA + TAU / gap) * eye + TAU / gap**2 * torch.outer(r, r)
            move, length = torch.linalg.solve(hessian, slope), 1.0
            while self.ceiling(x) - ((y - length * move - self.b @ x) ** 2).sum() / 2 <= 0.1 * gap:
                length /= 2
            y = y - length * move
        return y

    def phi(self, x: Tensor) -> Tensor:
        y = self.y(x)
        gap = self.ceiling(x) - ((y - self.b @ x) ** 2).sum() / 2
        return self.outer([y], [x]) + THETA / 2 * y @ y - TAU * gap.log()

    def compute(self, method: ValueFunction) -> HypergradientResult:
        w = self.z(self.x.detach()).requires_grad_()
        return hypergradient_with_diagnostics(self.inner, self.outer, [w], [self.x], method)


def test_the_gradient_is_that_of_the_value_function() -> None:
    p = Tracking()
    result = p.compute(ValueFunction(0.1, 1500, TAU, THETA, MU1, MU2))
    x, h = p.x.detach(), 1e-4
    units = torch.eye(3, dtype=DOUBLE)
    central = torch.stack([(p.phi(x + h * e) - p.phi(x - h * e)) / (2 * h) for e in units])
    assert result.end is not None
    torch.testing.assert_close(result.end[0], p.y(x), rtol=0, atol=1e-9)
    torch.testing.assert_close(result.gradient[0], central, rtol=0, atol=1e-8)
    torch.testing.assert_close(result.direct[0], x - p.d, rtol=0, atol=1e-12)
    assert float(result.indirect[0].norm()) > 0.1  # or the direct part alone would pass


def test_the_adaptive_form_is_a_penalty() -> None:
    """y minimizes F + theta/2 |y|^2 + rho f with rho = tau / (f(z) + mu1/2 |z|^2), which no feasibility bounds."""
    p = Tracking()
    result = p.compute(ValueFunction(0.05, 1500, TAU, THETA, MU1, "adaptive"))
    x = p.x.detach()
    level = float(p.ceiling(x)) - MU2
    rho, z = TAU / level, p.z(x)
    y = (p.c + rho * p.b @ x) / (1 + THETA + rho)
    assert result.end is not None
    torch.testing.assert_close(result.end[0], y, rtol=0, atol=1e-10)
    torch.testing.assert_close(result.indirect[0], rho * p.b.T @ (z - y), rtol=0, atol=1e-10)
    assert result.diagnostics.gap == pytest.approx(level)


def phi_of(p: Curved, y: Tensor, method: ValueFunction) -> Tensor:
    w, alpha = flat(p.w).detach(), [a.detach() for a in p.alpha]
    assert not isinstance(method.mu2, str)
    ceiling = p.inner([w], alpha) + method.mu1 / 2 * w @ w + method.mu2
    return p.outer([y], alpha) + method.theta / 2 * y @ y - method.tau * (ceiling - p.inner([y], alpha)).log()


def descend(p: Curved, y: Tensor, method: ValueFunction, step: float) -> Tensor:
    y = y.detach().clone().requires_grad_()
    return (y - step * torch.autograd.grad(phi_of(p, y, method), y)[0]).detach()


def test_every_descent_is_a_gradient_step_on_phi() -> None:
    p, method = Curved(), ValueFunction(0.01, 3, TAU, THETA, MU1, MU2)
    y = flat(p.w)
    for _ in range(method.steps):
        y = descend(p, y, method, method.step)
    result = hypergradient_with_diagnostics(p.inner, p.outer, p.w, p.alpha, method)
    assert result.end is not None and result.diagnostics.halvings == 0
    torch.testing.assert_close(flat(result.end), y, rtol=0, atol=1e-12)
    lower_z, lower_y = (flat(torch.autograd.grad(p.inner([v], p.alpha), p.alpha)) for v in (flat(p.w).detach(), y))
    w = flat(p.w).detach()
    with torch.no_grad():
        gap = float(p.inner([w], p.alpha) + MU1 / 2 * w @ w + MU2 - p.inner([y], p.alpha))
    torch.testing.assert_close(flat(result.indirect), TAU * (lower_y - lower_z) / gap, rtol=0, atol=1e-12)
    direct = flat(torch.autograd.grad(p.outer([y], p.alpha), p.alpha))
    torch.testing.assert_close(flat(result.direct), direct, rtol=0, atol=1e-12)
    assert result.diagnostics.gap == pytest.approx(gap, abs=1e-12)
    slopes = [float((descend(p, v, method, 1.0) - v).norm()) for v in (flat(p.w).detach(), y)]
    norms = result.diagnostics.norms
    assert len(norms) == method.steps + 1 and [norms[0], norms[-1]] == pytest.approx(slopes, abs=1e-12)
    assert result.diagnostics.residual == pytest.approx(slopes[1] / slopes[0])


def test_a_step_out_of_the_barrier_is_halved_until_it_stays_and_phi_falls() -> None:
    p, method = Curved(), ValueFunction(64.0, 1, TAU, THETA, MU1, 1e-2)
    w = flat(p.w).detach()
    result = hypergradient_with_diagnostics(p.inner, p.outer, p.w, p.alpha, method)
    step, halvings, start = 64.0, 0, float(phi_of(p, w, method))
    first_gap = float(MU1 / 2 * w @ w) + 1e-2
    while True:
        y = descend(p, w, method, step)
        gap = first_gap + (p.inner([w], p.alpha) - p.inner([y], p.alpha)).item()
        if gap >= 0.1 * first_gap and float(phi_of(p, y, method)) < start:
            break
        step, halvings = step / 2, halvings + 1
    assert halvings > 3 and result.diagnostics.halvings == halvings and result.end is not None
    torch.testing.assert_close(flat(result.end), y, rtol=0, atol=1e-12)
    assert result.diagnostics.gap == pytest.approx(gap)


@pytest.mark.parametrize(("step", "halvings"), [(0.0089, 0), (0.0091, 1)])
def test_a_tenth_of_the_gap_is_left(step: float, halvings: int) -> None:
    """f = y and F = -100 y from y = 0 with a gap of 1: the whole step leaves 1 - 100 step of it, and phi falls."""
    w, alpha = ([torch.zeros(1, dtype=DOUBLE).requires_grad_()] for _ in range(2))
    method = ValueFunction(step, 1, tau=1e-6, theta=0.0, mu1=0.0, mu2=1.0)
    result = hypergradient_with_diagnostics(
        lambda w, a: w[0].sum() + a[0].sum(), lambda w, a: -100 * w[0].sum(), w, alpha, method
    )
    assert result.diagnostics.halvings == halvings
    assert result.diagnostics.gap == pytest.approx(1 - 100 * step / 2**halvings, abs=1e-6)


def test_a_start_continues_the_descent() -> None:
    p, method = Curved(), ValueFunction(0.01, 5, TAU, THETA, MU1, MU2)
    whole = hypergradient_with_diagnostics(p.inner, p.outer, p.w, p.alpha, method)
    first = hypergradient_with_diagnostics(p.inner, p.outer, p.w, p.alpha, replace(method, steps=2))
    rest = hypergradient_with_diagnostics(p.inner, p.outer, p.w, p.alpha, replace(method, steps=3, start=first.end))
    assert torch.equal(flat(rest.gradient), flat(whole.gradient))


def test_a_start_outside_the_barrier_is_left_for_w() -> None:
    p, method = Curved(), ValueFunction(0.01, 2, TAU, THETA, MU1, MU2)
    far = [x.detach() + 100.0 for x in p.w]
    ends = [hypergradient(p.inner, p.outer, p.w, p.alpha, replace(method, start=s)) for s in (None, far)]
    assert torch.equal(flat(ends[0]), flat(ends[1]))
    with pytest.raises(ValueError, match="same shape"):
        hypergradient(p.inner, p.outer, p.w, p.alpha, replace(method, start=far[:1]))


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("mu2", [MU2, "adaptive"])
def test_a_call_costs_two_gradients_per_step_and_two_more(steps: int, mu2: float) -> None:
    p, calls, passes_back = Curved(), 0, 0

    def counted(loss: Tensor) -> Tensor:
        nonlocal calls
        calls += 1

        def count(gradient: Tensor) -> None:
            nonlocal passes_back
            passes_back += 1

        loss.register_hook(count)
        return loss

    result = hypergradient_with_diagnostics(
        lambda w, a: counted(p.inner(w, a)),
        lambda w, a: counted(p.outer(w, a)),
        p.w,
        p.alpha,
        ValueFunction(0.01, steps, TAU, THETA, MU1, mu2),
    )
    assert result.diagnostics.halvings == 0
    assert (calls, passes_back) == (2 * steps + 3, 2 * steps + 2)


@pytest.mark.parametrize("mu2", [MU2, "adaptive"])
def test_an_inner_loss_without_alphas_leaves_the_direct_part(mu2: float) -> None:
    p = Curved()
    method = ValueFunction(0.01, 2, TAU, THETA, MU1, mu2)
    result = hypergradient_with_diagnostics(lambda w, a: (flat(w) ** 4).sum(), p.outer, p.w, p.alpha, method)
    assert result.end is not None and not flat(result.indirect).any()
    direct = torch.autograd.grad(p.outer(result.end, p.alpha), p.alpha)
    assert torch.equal(flat(result.direct), flat(direct))


def test_a_stationary_point_stays() -> None:
    p = Tracking()
    w = p.y(p.x.detach())
    method = ValueFunction(0.1, 5, TAU, 0.0, 0.0, 1.0)
    result = hypergradient_with_diagnostics(
        lambda v, a: 0.0 * v[0].sum(), lambda v, a: ((v[0] - w) ** 2).sum(), [w.clone().requires_grad_()], [p.x], method
    )
    assert result.end is not None and torch.equal(result.end[0], w)
    assert result.diagnostics.residual == 0.0 and result.diagnostics.halvings == 0
