"""What holds for every method: the caller's state, unused tensors, failures in the middle, refused input."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pipeline.bilevel import (
    T1T2,
    ConjugateGradient,
    DirectOnly,
    ExactInverse,
    Method,
    Neumann,
    NonFiniteError,
    OneStepUnroll,
    ReverseMode,
    TruncatedReverse,
    ValueFunction,
    hypergradient,
    hypergradient_with_diagnostics,
)
from tests.bilevel.problems import DOUBLE, Curved, flat, random

METHODS: list[Method] = [
    DirectOnly(),
    ExactInverse(),
    OneStepUnroll(0.01),
    T1T2(),
    Neumann(0.01, 2),
    Neumann(0.01, 2, products="finite_difference", step=1e-3),
    Neumann(0.01, 2, products="finite_difference", step=1e-3, difference="central"),
    ConjugateGradient(steps=3, damping=5.0),
    ReverseMode(0.01, 3),
    ReverseMode(0.01, 1, products="finite_difference", step=1e-3, difference="central"),
    TruncatedReverse(0.01, 3, 2),
    ValueFunction(0.01, 2, tau=0.5, theta=0.1, mu1=0.1, mu2=1.0),
    ValueFunction(0.01, 2, tau=0.5, theta=0.1, mu1=0.1, mu2="adaptive"),
]
EVERY_METHOD = pytest.mark.parametrize("method", METHODS, ids=repr)
BOTH_ENTRIES = pytest.mark.parametrize("compute", [hypergradient, hypergradient_with_diagnostics])


class Normalized:
    """A network with BatchNorm in training mode, whose parameters are w; its statistics move with every forward."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2)).to(DOUBLE)
        self.net(random(8, 3, seed=0))  # so that the statistics are not round numbers
        self.w = list(self.net.parameters())
        self.alpha = [random(3, seed=1).requires_grad_(), random(2, seed=2).requires_grad_()]
        self.buffers = list(self.net.buffers())
        self.calls, self.fail_at = 0, 0

    def loss(self, seed: int) -> Callable[[Sequence[Tensor], Sequence[Tensor]], Tensor]:
        x = random(8, 3, seed=seed)

        def value(w: Sequence[Tensor], alpha: Sequence[Tensor]) -> Tensor:
            self.calls += 1
            logits = self.net(x * alpha[0].exp()) * alpha[1]
            if self.calls == self.fail_at:
                raise KeyboardInterrupt
            return logits.logsumexp(1).mean() + 0.05 * (flat(self.w) ** 2).sum()

        return value

    def state(self) -> list[Tensor]:
        grads = [p.grad for p in (*self.w, *self.alpha) if p.grad is not None]
        return [x.detach().clone() for x in (*self.w, *self.alpha, *self.buffers, *grads)]


def same_bits(a: Sequence[Tensor], b: Sequence[Tensor]) -> bool:
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


@EVERY_METHOD
@BOTH_ENTRIES
def test_weights_alphas_gradients_and_buffers_keep_their_bits(compute: Callable[..., object], method: Method) -> None:
    p = Normalized()
    for x in (*p.w, *p.alpha):
        x.grad = torch.ones_like(x)
    before = p.state()
    compute(p.loss(4), p.loss(5), p.w, p.alpha, method, buffers=p.buffers)
    assert same_bits(before, p.state())
    assert p.calls > 0


@EVERY_METHOD
def test_buffers_that_are_not_named_move(method: Method) -> None:
    """So the test above would notice."""
    p = Normalized()
    before = p.state()
    hypergradient(p.loss(4), p.loss(5), p.w, p.alpha, method)
    assert not same_bits(before, p.state())


@EVERY_METHOD
def test_an_interruption_at_any_evaluation_leaves_the_state(method: Method) -> None:
    counting = Normalized()
    hypergradient(counting.loss(4), counting.loss(5), counting.w, counting.alpha, method, buffers=counting.buffers)
    for fail_at in range(1, counting.calls + 1):
        p = Normalized()
        before, p.fail_at = p.state(), fail_at
        with pytest.raises(KeyboardInterrupt):
            hypergradient(p.loss(4), p.loss(5), p.w, p.alpha, method, buffers=p.buffers)
        assert same_bits(before, p.state())


@EVERY_METHOD
def test_a_graph_the_caller_holds_stays_valid(method: Method) -> None:
    p = Normalized()
    held, fresh = (p.loss(6)(p.w, p.alpha) for _ in range(2))
    expected = flat(torch.autograd.grad(fresh, p.w))
    hypergradient(p.loss(4), p.loss(5), p.w, p.alpha, method, buffers=p.buffers)
    assert torch.equal(flat(torch.autograd.grad(held, p.w)), expected)


@EVERY_METHOD
def test_works_inside_no_grad_and_returns_plain_tensors(method: Method) -> None:
    p = Curved()
    with torch.no_grad():
        inside = hypergradient(p.inner, p.outer, p.w, p.alpha, method)
    assert not any(g.requires_grad for g in inside)
    assert torch.equal(flat(inside), flat(hypergradient(p.inner, p.outer, p.w, p.alpha, method)))


# those that take the derivatives of L1, at w or (unrolled) on a path that L1 alone decides
IMPLICIT = [m for m in METHODS if not isinstance(m, DirectOnly | ExactInverse | ValueFunction)]


@pytest.mark.parametrize("method", IMPLICIT, ids=repr)
def test_unused_tensors_count_as_zeros(method: Method) -> None:
    """A third w and a third alpha that only the outer loss reads change nothing in the rest."""
    if isinstance(method, ConjugateGradient):
        method = ConjugateGradient(steps=50, rtol=1e-14, damping=0.5)  # a truncated one depends on all of V
    p = Curved()
    plain = hypergradient_with_diagnostics(p.inner, p.outer, p.w, p.alpha, method)
    idle_w, idle_alpha = random(2, seed=1).requires_grad_(), random(3, seed=2).requires_grad_()
    w, alpha = [*p.w, idle_w], [*p.alpha, idle_alpha]
    result = hypergradient_with_diagnostics(
        lambda w, alpha: p.inner(w[:2], alpha[:2]),
        lambda w, alpha: p.outer(w[:2], alpha[:2]) + (w[2] ** 2).sum() + alpha[2].sum(),
        w,
        alpha,
        method,
    )
    # the norm of V now counts the idle weight, which moves the step of a finite difference
    tolerance = 5e-3 if isinstance(method, Neumann) and method.products != "exact" else 1e-10
    torch.testing.assert_close(flat(result.indirect[:2]), flat(plain.indirect), rtol=0, atol=tolerance)
    assert not result.indirect[2].any()
    assert torch.equal(result.direct[2], torch.ones(3, dtype=DOUBLE))


@pytest.mark.parametrize("method", IMPLICIT, ids=repr)
@pytest.mark.parametrize("inner", ["alpha-free", "linear", "constant"])
def test_without_mixed_derivatives_the_direct_part_is_all(method: Method, inner: str) -> None:
    p = Curved()
    losses = {
        "alpha-free": lambda w, alpha: (flat(w) ** 4).sum(),
        "linear": lambda w, alpha: 0.0 * flat(w).sum() + flat(alpha).sum(),
        "constant": lambda w, alpha: torch.ones((), dtype=DOUBLE),
    }
    gradient = hypergradient(losses[inner], p.outer, p.w, p.alpha, method)
    if isinstance(method, ReverseMode | TruncatedReverse) and inner == "alpha-free":
        return  # the direct part is taken at the moved weights
    direct = torch.autograd.grad(p.outer(p.w, p.alpha), p.alpha)
    torch.testing.assert_close(flat(gradient), flat(direct), rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", IMPLICIT, ids=repr)
def test_an_outer_loss_without_weights_or_alphas(method: Method) -> None:
    p = Curved()
    alpha_only = hypergradient(p.inner, lambda w, alpha: (flat(alpha) ** 2).sum(), p.w, p.alpha, method)
    torch.testing.assert_close(flat(alpha_only), 2 * flat(p.alpha).detach(), rtol=0, atol=1e-12)
    neither = hypergradient(p.inner, lambda w, alpha: torch.ones((), dtype=DOUBLE), p.w, p.alpha, method)
    assert not flat(neither).any()


@EVERY_METHOD
def test_nan_in_the_outer_loss_raises(method: Method) -> None:
    p = Curved()
    with pytest.raises(NonFiniteError):
        hypergradient(p.inner, lambda w, alpha: p.outer(w, alpha) * torch.nan, p.w, p.alpha, method)


@pytest.mark.parametrize("method", [m for m in METHODS if not isinstance(m, DirectOnly | ExactInverse)], ids=repr)
def test_nan_in_the_mixed_derivatives_alone_raises(method: Method) -> None:
    p = Curved()

    def inner(w: Sequence[Tensor], alpha: Sequence[Tensor]) -> Tensor:
        """The square root has no derivative where alpha[0] - alpha[0] = 0, and nothing of it shows in dL1/dw."""
        return p.inner(w, alpha) + ((alpha[0] - alpha[0].detach()).sqrt() * (w[0] ** 2).sum()).sum()

    with pytest.raises(NonFiniteError):
        hypergradient(inner, p.outer, p.w, p.alpha, method)


def test_refused_input() -> None:
    p = Curved()
    with pytest.raises(ValueError, match="leaf"):
        hypergradient(p.inner, p.outer, [x.detach() for x in p.w], p.alpha, T1T2())
    with pytest.raises(ValueError, match="leaf"):
        hypergradient(p.inner, p.outer, [2 * x for x in p.w], p.alpha, T1T2())
    with pytest.raises(ValueError, match="twice"):
        hypergradient(p.inner, p.outer, [*p.w, p.w[0]], p.alpha, T1T2())
    with pytest.raises(ValueError, match="one number"):
        hypergradient(lambda w, alpha: w[0], p.outer, p.w, p.alpha, T1T2())


@pytest.mark.parametrize(
    "build",
    [
        lambda: Neumann(0.0, 1),
        lambda: Neumann(float("nan"), 1),
        lambda: Neumann(0.1, -1),
        lambda: Neumann(0.1, 1, step=0.0),
        lambda: Neumann(0.1, 1, products="forward"),  # type: ignore[arg-type]
        lambda: Neumann(0.1, 1, difference="backward"),  # type: ignore[arg-type]
        lambda: OneStepUnroll(-0.1),
        lambda: ConjugateGradient(0),
        lambda: ConjugateGradient(1, damping=-1.0),
        lambda: ReverseMode(0.1, 0),
        lambda: TruncatedReverse(0.1, 3, 4),
        lambda: TruncatedReverse(0.1, 3, 0),
    ],
)
def test_refused_settings(build: Callable[[], Method]) -> None:
    with pytest.raises(ValueError, match="must"):
        build()


@pytest.mark.parametrize("method", ["neumann", Neumann, None])
@pytest.mark.parametrize("compute", [hypergradient, hypergradient_with_diagnostics])
def test_what_is_no_method_is_told_what_is_wanted(compute: Any, method: Any) -> None:
    w = torch.ones(1, requires_grad=True)
    with pytest.raises(TypeError, match=r"as in Neumann\(0\.01, 2\); .*ConjugateGradient.*DirectOnly"):
        compute(lambda w, a: w[0].sum(), lambda w, a: w[0].sum(), [w], [w], method)
