"""The reverse-mode methods against autograd through the unrolled loop, the Z_t recursion and eq. 16."""

import pytest
import torch
from torch import Tensor

from pipeline.bilevel import (
    Neumann,
    NonFiniteError,
    ReverseMode,
    TruncatedReverse,
    hypergradient,
    hypergradient_with_diagnostics,
)
from tests.bilevel.problems import DOUBLE, Curved, Quadratic, flat, spd

GAMMA = 0.2


def unroll(p: Curved, steps: int, last: int) -> Tensor:
    """Autograd through the loop, the weights detached before its last steps."""
    alpha = [a.detach().clone().requires_grad_() for a in p.alpha]
    w = flat(p.w)
    for t in range(steps):
        w = w.detach().requires_grad_() if t <= steps - last else w
        (g,) = torch.autograd.grad(p.inner([w], alpha), w, create_graph=True)
        w = w - GAMMA * g
    return flat(torch.autograd.grad(p.outer([w], alpha), alpha))


@pytest.mark.parametrize("steps", [1, 2, 5, 12])
def test_reverse_mode_is_autograd_through_the_loop(steps: int) -> None:
    p = Curved()
    found = flat(hypergradient(p.inner, p.outer, p.w, p.alpha, ReverseMode(GAMMA, steps)))
    torch.testing.assert_close(found, unroll(p, steps, last=steps), rtol=0, atol=1e-10)


def test_one_step_with_central_differences_is_darts() -> None:
    """Eq. 7 and 8 of DARTS by hand: all outer gradients at w', the differences around w."""
    p = Curved()
    alpha, w = [a.detach().clone().requires_grad_() for a in p.alpha], flat(p.w).detach().requires_grad_()
    moved = (w - GAMMA * torch.autograd.grad(p.inner([w], alpha), w)[0]).detach().requires_grad_()
    v, *direct = torch.autograd.grad(p.outer([moved], alpha), [moved, *alpha])
    epsilon = 1e-3 / v.norm()
    ahead, behind = (flat(torch.autograd.grad(p.inner([w + e * v], alpha), alpha)) for e in (epsilon, -epsilon))
    expected = flat(direct) - GAMMA * (ahead - behind) / (2 * epsilon)
    method = ReverseMode(GAMMA, 1, "finite_difference", 1e-3, "central")
    found = flat(hypergradient(p.inner, p.outer, p.w, p.alpha, method))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    torch.testing.assert_close(found, unroll(p, 1, last=1), rtol=0, atol=1e-6)
    at_w = flat(hypergradient(p.inner, p.outer, p.w, p.alpha, Neumann(GAMMA, 0)))
    assert (found - at_w).norm() > 0.01 * found.norm()


@pytest.mark.parametrize("last", [1, 2, 5])
def test_truncated_reverse_is_autograd_through_the_end_of_the_loop(last: int) -> None:
    p = Curved()
    found = flat(hypergradient(p.inner, p.outer, p.w, p.alpha, TruncatedReverse(GAMMA, 7, last)))
    torch.testing.assert_close(found, unroll(p, 7, last), rtol=0, atol=1e-10)


@pytest.mark.parametrize("steps", [1, 3, 8])
def test_reverse_mode_is_the_forward_recursion(steps: int) -> None:
    """Z_t = A_t Z_{t-1} + B_t with A_t = I - gamma H and B_t = -gamma M^T at w_{t-1}, dense and from Z_0 = 0."""
    p = Curved()
    alpha = [a.detach() for a in p.alpha]
    eye = torch.eye(5, dtype=DOUBLE)
    z = torch.zeros(5, 5, dtype=DOUBLE)
    for _ in range(steps):
        gradient = torch.func.grad(lambda x: p.inner([x], alpha))(flat(p.w).detach())
        z = (eye - GAMMA * p.hessian()) @ z - GAMMA * p.mixed().T
        with torch.no_grad():
            moved = flat(p.w) - GAMMA * gradient
        p.w[0].data.copy_(moved[:3].reshape(1, 3))
        p.w[1].data.copy_(moved[3:])
    at_the_end = [x.detach().requires_grad_() for x in (*p.w, *p.alpha)]
    grads = torch.autograd.grad(p.outer(at_the_end[:2], at_the_end[2:]), at_the_end)
    expected = z.T @ flat(grads[:2])
    start = Curved()
    result = hypergradient_with_diagnostics(start.inner, start.outer, start.w, start.alpha, ReverseMode(GAMMA, steps))
    torch.testing.assert_close(flat(result.indirect), expected, rtol=0, atol=1e-10)
    torch.testing.assert_close(flat(result.direct), flat(grads[2:]), rtol=0, atol=1e-10)


def test_one_step_is_equation_16() -> None:
    """dL2/dalpha(w') - xi d2L1/dalpha dw(w) dL2/dw(w') with w' = w - xi dL1/dw(w): M at w, L2 at w'."""
    p = Curved()
    alpha = [a.detach() for a in p.alpha]
    gradient = torch.func.grad(lambda x: p.inner([x], alpha))(flat(p.w).detach())
    moved = (flat(p.w).detach() - GAMMA * gradient).requires_grad_()
    grads = torch.autograd.grad(p.outer([moved], p.alpha), [moved, *p.alpha])
    expected = flat(grads[1:]) - GAMMA * p.mixed() @ grads[0]
    found = flat(hypergradient(p.inner, p.outer, p.w, p.alpha, ReverseMode(GAMMA, 1)))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)


def test_a_diverging_descent_raises() -> None:
    p = Quadratic(spd(4, seed=0))
    with pytest.raises(NonFiniteError):
        hypergradient(p.inner, p.outer, p.w, p.alpha, ReverseMode(1e200, 5))


def test_norms_go_back_in_time() -> None:
    p = Quadratic(2.0 * torch.eye(3, dtype=DOUBLE))
    result = hypergradient_with_diagnostics(p.inner, p.outer, p.w, p.alpha, ReverseMode(0.25, 3))
    norms = result.diagnostics.norms
    assert [n / norms[0] for n in norms] == pytest.approx([1, 0.5, 0.25])
