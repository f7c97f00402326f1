"""Several ranks, played by threads that meet in `reduce`, get the hypergradient of the mean losses."""

import threading
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from pipeline.bilevel import (
    ConjugateGradient,
    Method,
    Neumann,
    ValueFunction,
    hypergradient,
    hypergradient_with_diagnostics,
)
from tests.bilevel.problems import Curved, flat
from tests.bilevel.test_promises import METHODS


class Ranks:
    """Ranks with losses of their own at the same point."""

    def __init__(self, count: int) -> None:
        self.problems = [Curved(seed=10 * rank) for rank in range(count)]
        for p in self.problems[1:]:
            for mine, first in zip((*p.w, *p.alpha), (*self.problems[0].w, *self.problems[0].alpha), strict=True):
                mine.data.copy_(first)
            p.inner = lambda w, alpha, own=p, inner=p.inner: inner(w, alpha) + (flat(alpha) * own.y[:5] * flat(w)).sum()  # type: ignore[method-assign, misc]
            p.outer = lambda w, alpha, own=p: (flat(w) @ own.x.mean(0)) ** 2 + (flat(alpha) ** 3).sum()  # type: ignore[method-assign, misc]
        self.barrier = threading.Barrier(count)
        self.slots: list[list[Tensor]] = [[] for _ in range(count)]

    def mean(self, name: str) -> Callable[[Sequence[Tensor], Sequence[Tensor]], Tensor]:
        return lambda w, alpha: sum(getattr(p, name)(w, alpha) for p in self.problems) / len(self.problems)

    def reduce(self, rank: int, vectors: list[Tensor]) -> list[Tensor]:
        self.slots[rank] = vectors
        self.barrier.wait(timeout=30)
        averaged = [torch.stack(parts).mean(0) for parts in zip(*self.slots, strict=True)]
        self.barrier.wait(timeout=30)
        return averaged

    def run(self, method: Method) -> list[Tensor]:
        found: dict[int, Tensor] = {}

        def work(rank: int) -> None:
            p = self.problems[rank]
            gradient = hypergradient(
                p.inner, p.outer, p.w, p.alpha, method, reduce=lambda vectors: self.reduce(rank, vectors)
            )
            found[rank] = flat(gradient)

        threads = [threading.Thread(target=work, args=(rank,)) for rank in range(len(self.problems))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
        return [found[rank] for rank in range(len(self.problems))]


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_ranks_agree_on_the_hypergradient_of_the_mean_losses(method: Method) -> None:
    ranks = Ranks(3)
    found = ranks.run(method)
    first = ranks.problems[0]
    whole = flat(hypergradient(ranks.mean("inner"), ranks.mean("outer"), first.w, first.alpha, method))
    assert all(torch.equal(found[0], other) for other in found[1:])
    torch.testing.assert_close(found[0], whole, rtol=0, atol=1e-9)


HALVED = [ValueFunction(1.0, 3, tau=0.5, theta=0.1, mu1=0.0, mu2=mu2) for mu2 in (1.0, "adaptive")]


@pytest.mark.parametrize("method", HALVED, ids=repr)
def test_ranks_halve_their_steps_together(method: ValueFunction) -> None:
    """Each by its own losses would halve at other times, and wait for the others for ever."""
    ranks = Ranks(2)
    found = ranks.run(method)
    first = ranks.problems[0]
    whole = hypergradient_with_diagnostics(ranks.mean("inner"), ranks.mean("outer"), first.w, first.alpha, method)
    alone = [hypergradient_with_diagnostics(p.inner, p.outer, p.w, p.alpha, method) for p in ranks.problems]
    assert len({whole.diagnostics.halvings, *(one.diagnostics.halvings for one in alone)}) > 1
    assert torch.equal(found[0], found[1])
    torch.testing.assert_close(found[0], flat(whole.gradient), rtol=0, atol=1e-9)


AVERAGED_LATE = [Neumann(0.2, 3), ConjugateGradient(3, damping=0.1), ValueFunction(0.01, 3, 0.5, 0.1, 0.1, 1.0)]


@pytest.mark.parametrize("method", AVERAGED_LATE, ids=repr)
def test_averaging_the_results_of_each_rank_is_another_number(method: Method) -> None:
    ranks = Ranks(3)
    apart = [flat(hypergradient(p.inner, p.outer, p.w, p.alpha, method)) for p in ranks.problems]
    assert (torch.stack(apart).mean(0) - ranks.run(method)[0]).norm() > 1e-3
