"""What networks promise before any training, by two measures that err differently: synaptic flow, activation patterns.

Among networks that are compared, the promise of one is the mean of its two ranks, from 0 to 1. The promise of random
networks, explained by a sum over their choices (ridge regression), gives every choice a score that an integer programme
can maximize; single networks are then compared by their own promise, which knows how choices play together.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata
from torch import Tensor

from pipeline.selection.flow import log_flow
from pipeline.selection.milp import Scores
from pipeline.selection.patterns import log_distinctness
from pipeline.space.cells import Space
from pipeline.space.genotype import Genotype
from pipeline.space.sampling import random_genotype
from pipeline.space.skeleton import Skeleton

_RIDGE = 3.0


class _Measures(NamedTuple):
    flow: float
    distinctness: float


class Untrained:
    """Networks without training at the size of a skeleton, looked at with some images; each is measured once."""

    def __init__(self, skeleton: Skeleton, images: Tensor, seed: int) -> None:
        self._skeleton, self._images, self._seed = skeleton, images, seed
        self._known: dict[str, _Measures] = {}

    def promises(
        self, genotypes: Sequence[Genotype], progress: Callable[[float], None] = lambda _: None
    ) -> list[float]:
        """The promise of every genotype beside the others."""
        measures = []
        for number, genotype in enumerate(genotypes):
            measures.append(self._measure(genotype))
            progress((number + 1) / len(genotypes))
        ranks = sum(rankdata(column) for column in zip(*measures, strict=True))
        return [float(rank) / (2 * len(genotypes)) for rank in ranks] if genotypes else []

    def _measure(self, genotype: Genotype) -> _Measures:
        name = str(genotype.record())
        if name not in self._known:
            self._known[name] = _Measures(
                log_flow(self._skeleton, genotype, self._seed),
                log_distinctness(self._skeleton, genotype, self._images, self._seed),
            )
        return self._known[name]

    def scores(self, space: Space, samples: int, progress: Callable[[float], None] = lambda _: None) -> Scores:
        """The score of every choice, from `samples` random networks."""
        generator = np.random.default_rng(self._seed)
        genotypes = [random_genotype(space.name, generator) for _ in range(samples)]
        return explain(space, genotypes, self.promises(genotypes, progress))


def explain(space: Space, genotypes: Sequence[Genotype], values: Sequence[float]) -> Scores:
    """Scores whose sums over a network's choices come nearest to the values, in units of the values' spread.

    A choice that never occurs gets 0.
    """
    shapes = {kind.name: (len(kind.edges), len(kind.operations)) for kind in space.kinds}
    offsets = dict(zip(shapes, np.cumsum([0, *(e * o for e, o in shapes.values())]), strict=False))
    size = sum(edges * operations for edges, operations in shapes.values())
    chosen = np.zeros((len(genotypes), size))
    for row, genotype in enumerate(genotypes):
        for kind in space.kinds:
            for kept in genotype.kept(kind):
                place = kept.edge * len(kind.operations) + kind.operations.index(kept.operation)
                chosen[row, offsets[kind.name] + place] = 1.0
    y = np.asarray(values, np.float64)
    y = (y - y.mean()) / (y.std() or 1.0)
    centred = chosen - chosen.mean(axis=0)
    score = np.linalg.solve(centred.T @ centred + _RIDGE * np.eye(size), centred.T @ y)
    return {name: score[offsets[name] :][: e * o].reshape(e, o) for name, (e, o) in shapes.items()}


def add_promise(ours: Scores, theirs: Scores, weight: float) -> Scores:
    """ours + weight · theirs, with theirs in units of their own spread; what cannot be chosen stays out.

    The search's scores are log-odds and stay as they are: near each other while it is undecided, so that the promise
    decides, and several units apart once it has decided.
    """
    centred = {name: score - score.mean(axis=1, keepdims=True) for name, score in theirs.items()}
    spread = float(np.concatenate([score.ravel() for score in centred.values()]).std()) or 1.0
    return {name: score + weight / spread * centred[name] for name, score in ours.items()}
