"""Finite differences against exact products on a DARTS supernet, and the supernet's state after every method."""

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, nn

from pipeline.bilevel import (
    ConjugateGradient,
    ExactInverse,
    Method,
    Neumann,
    OneStepUnroll,
    hypergradient,
    hypergradient_with_diagnostics,
)
from pipeline.space.skeleton import Skeleton
from pipeline.space.supernet import Supernet
from tests.bilevel.problems import flat
from tests.bilevel.test_promises import METHODS, same_bits

GAMMA = 0.01
TERMS = 2


def smoothed(module: nn.Module) -> None:
    """Put CELU for every ReLU and average pooling for every max pooling."""
    for name, child in module.named_children():
        if isinstance(child, nn.ReLU):
            setattr(module, name, nn.CELU())
        elif isinstance(child, nn.MaxPool2d):
            setattr(module, name, nn.AvgPool2d(child.kernel_size, child.stride, child.padding))
        else:
            smoothed(child)


class Search:
    """A supernet in training mode, two batches and two losses that close over it."""

    def __init__(self, dtype: torch.dtype, smooth: bool) -> None:
        torch.manual_seed(0)
        skeleton = Skeleton(space="darts", cells=3, channels=4, resolution=16, classes=10, in_channels=3)
        net = Supernet(skeleton, affine=False, pool_bn=True)
        if smooth:
            smoothed(net)
        self.net = net.to(dtype)
        self.w = list(net.parameters())
        self.alpha = [(0.5 * torch.randn(14, 8)).to(dtype).requires_grad_() for _ in range(2)]
        self.inner, self.outer = self.loss(dtype), self.loss(dtype)

    def loss(self, dtype: torch.dtype) -> Callable[[Sequence[Tensor], Sequence[Tensor]], Tensor]:
        x, y = torch.randn(4, 3, 16, 16).to(dtype), torch.randint(10, (4,))

        def value(w: Sequence[Tensor], alpha: Sequence[Tensor]) -> Tensor:
            logits = self.net(x, [a.softmax(-1) for a in alpha])
            return nn.functional.cross_entropy(logits, y) + 0.01 * sum((p**2).sum() for p in self.w)

        return value

    def indirect(self, method: Method) -> Tensor:
        buffers = list(self.net.buffers())
        result = hypergradient_with_diagnostics(self.inner, self.outer, self.w, self.alpha, method, buffers=buffers)
        return flat(result.indirect)


def cosine(a: Tensor, b: Tensor) -> float:
    return float(nn.functional.cosine_similarity(a.double(), b.double(), dim=0))


@pytest.mark.parametrize(
    ("dtype", "smooth", "step", "hessian_part"),
    [(torch.float64, True, 1e-3, 0.95), (torch.float32, True, 1e-3, 0.95), (torch.float64, False, 1e-8, 0.999999)],
    ids=["smooth64", "smooth32", "relu64"],
)
def test_finite_differences_are_the_exact_products(
    dtype: torch.dtype, smooth: bool, step: float, hessian_part: float
) -> None:
    """Without H all terms are equal, so what H does is the sum less (K+1) times its first term."""
    search = Search(dtype, smooth)
    exact = search.indirect(Neumann(GAMMA, TERMS))
    differences = search.indirect(Neumann(GAMMA, TERMS, "finite_difference", step))
    without_hessian = (TERMS + 1) * search.indirect(OneStepUnroll(GAMMA))
    assert cosine(exact, differences) >= 0.999
    assert float(differences.norm() / exact.norm()) == pytest.approx(1, abs=0.01)
    assert cosine(exact - without_hessian, differences - without_hessian) >= hessian_part


STATELESS = [m for m in METHODS if not isinstance(m, ExactInverse | ConjugateGradient)]
DAMPED = ConjugateGradient(steps=2, damping=100.0)  # the supernet's Hessian has eigenvalues well below -5


@pytest.mark.parametrize("method", [*STATELESS, DAMPED], ids=repr)
def test_the_supernet_keeps_its_bits(search32: Search, method: Method) -> None:
    check_bits(search32, list[Tensor](search32.w), method)


def test_the_supernet_keeps_its_bits_after_a_dense_solve(search32: Search) -> None:
    """Over the bias of the classifier alone; one product per weight is too much for all of them."""
    check_bits(search32, [p for p in search32.w if p.shape == (10,)], ExactInverse())


def check_bits(search: Search, w: list[Tensor], method: Method) -> None:
    buffers = list(search.net.buffers())
    state = [*search.w, *search.alpha, *buffers]
    before = [x.detach().clone() for x in state]
    hypergradient(search.inner, search.outer, w, search.alpha, method, buffers=buffers)
    assert same_bits(before, state)
    assert not any(p.grad is not None for p in state)


@pytest.fixture(scope="module")
def search32() -> Search:
    return Search(torch.float32, smooth=False)
