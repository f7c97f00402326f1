"""The supernet, and the ways to its hypergradient that benchmarks.hypergradient compares."""

import argparse
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from pipeline.bilevel import (
    Composition,
    ConjugateGradient,
    Method,
    Neumann,
    ReverseMode,
    ValueFunction,
    hypergradient,
    hypergradient_with_diagnostics,
)
from pipeline.space.skeleton import Skeleton
from pipeline.space.supernet import Supernet

GAMMA = 1e-4  # the cost does not depend on it; a supernet at its start diverges at the usual 0.025


class Search:
    """The supernet, its alphas and two batches of noise."""

    def __init__(self, options: argparse.Namespace) -> None:
        torch.manual_seed(0)
        torch.set_num_threads(options.threads)
        skeleton = Skeleton("darts", options.cells, options.channels, options.resolution, classes=10)
        layout = getattr(torch, options.memory_format)
        self.net = Supernet(skeleton).to(memory_format=layout)
        self.w, self.buffers = list(self.net.parameters()), list(self.net.buffers())
        self.alpha = [(1e-3 * torch.randn(14, 8)).requires_grad_() for _ in range(2)]
        shape = (options.batch, 3, options.resolution, options.resolution)
        self.images = [torch.randn(shape).to(memory_format=layout) for _ in range(2)]
        self.labels = [torch.randint(10, (options.batch,)) for _ in range(2)]

        self.inner = Composition(
            lambda w, alpha: [self.logits(0)], lambda z, alpha: nn.functional.cross_entropy(z[0], self.labels[0])
        )

    def logits(self, batch: int) -> Tensor:
        logits: Tensor = self.net(self.images[batch], [a.softmax(-1) for a in self.alpha])
        return logits

    def loss(self, batch: int) -> Tensor:
        return nn.functional.cross_entropy(self.logits(batch), self.labels[batch])

    def outer(self, w: Sequence[Tensor], alpha: Sequence[Tensor]) -> Tensor:
        return self.loss(1)

    def gradient(self) -> None:
        """The unit: what one step on the weights differentiates."""
        torch.autograd.grad(self.loss(0), self.w)

    def compute(self, method: Method) -> list[Tensor]:
        return hypergradient(self.inner, self.outer, self.w, self.alpha, method, buffers=self.buffers)

    def diagnose(self, method: Method) -> Tensor:
        result = hypergradient_with_diagnostics(
            self.inner, self.outer, self.w, self.alpha, method, buffers=self.buffers
        )
        return torch.cat([part.flatten() for part in result.indirect])

    def textbook(self, terms: int) -> list[Tensor]:
        """The Neumann hypergradient as tutorials write it."""
        v = list(torch.autograd.grad(self.loss(1), [*self.w, *self.alpha]))
        direct, v = v[len(self.w) :], v[: len(self.w)]
        total = v
        for _ in range(terms):
            g = torch.autograd.grad(self.loss(0), self.w, create_graph=True)
            product = torch.autograd.grad(g, self.w, v)
            v = [a - GAMMA * b for a, b in zip(v, product, strict=True)]
            total = [a + b for a, b in zip(total, v, strict=True)]
        epsilon = 1e-3 / float(torch.stack([x.norm() for x in total]).norm())
        sides = []
        for move in (epsilon, -2 * epsilon):
            with torch.no_grad():
                for p, x in zip(self.w, total, strict=True):
                    p.add_(x, alpha=move)
            sides.append(torch.autograd.grad(self.loss(0), self.alpha))
        with torch.no_grad():
            for p, x in zip(self.w, total, strict=True):
                p.add_(x, alpha=epsilon)
        return [d - GAMMA * (p - n) / (2 * epsilon) for d, p, n in zip(direct, *sides, strict=True)]

    def variant(self, name: str) -> Callable[[], object]:
        """What a name like `exact 2` runs."""
        kind, _, count = name.partition(" ")
        k = int(count or 0)
        methods: dict[str, Callable[[], object]] = {
            "gradient": self.gradient,
            "finite_difference": lambda: self.compute(Neumann(GAMMA, k, "finite_difference")),
            "finite_difference+diagnostics": lambda: self.diagnose(Neumann(GAMMA, k, "finite_difference")),
            "central": lambda: self.compute(Neumann(GAMMA, k, "finite_difference", difference="central")),
            "exact": lambda: self.compute(Neumann(GAMMA, k)),
            "exact+diagnostics": lambda: self.diagnose(Neumann(GAMMA, k)),
            "gauss_newton": lambda: self.compute(Neumann(GAMMA, k, "gauss_newton")),
            "gauss_newton+diagnostics": lambda: self.diagnose(Neumann(GAMMA, k, "gauss_newton")),
            "textbook": lambda: self.textbook(k),
            "cg": lambda: self.compute(ConjugateGradient(steps=k, rtol=0.0, damping=1e4)),
            "reverse": lambda: self.compute(ReverseMode(GAMMA, k)),
            "bvfim": lambda: self.compute(ValueFunction(GAMMA, k, tau=1.0, theta=3e-4, mu1=0.0, mu2=1.0)),
        }
        return methods[kind]
