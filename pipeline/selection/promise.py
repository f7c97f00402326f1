"""What networks promise before any training, by figures that err differently: flow, activations, multiply-adds.

The promise of a network is its mean place among random networks, over all figures, in units of their spread. The
promise of random networks, explained by a sum over their choices (ridge regression), gives every choice a score that
an integer programme can maximize. A single network is asked for its own promise, which knows how choices play together.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from torch import Tensor

from pipeline.budget.integer_programme import Scores
from pipeline.selection.activations import look_at_activations
from pipeline.selection.flow import log_flow
from pipeline.space.cells import Space
from pipeline.space.choices import Choices, choices_cost, genotype_of, without_idle
from pipeline.space.costs import Costs
from pipeline.space.genotype import Genotype
from pipeline.space.plan import count_macs
from pipeline.space.sampling import random_genotype
from pipeline.space.skeleton import Skeleton
from pipeline.space.spaces import space_named

Figures = tuple[float, ...]

_RIDGE = 3.0
_DRAWS = 2


class Untrained:
    """Networks without training at the size of a skeleton, looked at with some images beside `samples` random ones."""

    def __init__(
        self,
        skeleton: Skeleton,
        images: Tensor,
        seed: int,
        samples: int,
        report: Callable[[], object] = lambda: None,
    ) -> None:
        self._skeleton, self._images, self._seed = skeleton, images, seed
        self._known: dict[str, Figures] = {}
        generator = np.random.default_rng(seed)
        self._drawn = [random_genotype(skeleton.space, generator) for _ in range(samples)]
        figures = []
        for genotype in self._drawn:
            figures.append(self._look_at(genotype))
            report()
        self._columns = [np.array(column) for column in zip(*figures, strict=True)]
        places = np.array([self._mean_place(figure) for figure in figures])
        self._middle, self._spread = float(places.mean()), float(places.std()) or 1.0

    def promise(self, genotype: Genotype) -> float:
        """The promise of one network."""
        return (self._mean_place(self._look_at(genotype)) - self._middle) / self._spread

    def scores(self) -> Scores:
        """The score of every choice."""
        promises = [self.promise(genotype) for genotype in self._drawn]
        return explain(space_named(self._skeleton.space), self._drawn, promises)

    def _mean_place(self, figures: Figures) -> float:
        return float(np.mean([place_among(*pair) for pair in zip(self._columns, figures, strict=True)]))

    def _look_at(self, genotype: Genotype) -> Figures:
        genotype = without_idle(space_named(genotype.space), genotype)
        name = str(genotype.record())
        if name not in self._known:
            flow = log_flow(self._skeleton, genotype, self._seed)
            seen = look_at_activations(self._skeleton, genotype, self._images, self._seed)
            macs = count_macs(self._skeleton, genotype)
            self._known[name] = (flow, seen.distinctness, seen.progress, float(macs))
        return self._known[name]


def place_among(values: NDArray[np.float64], value: float) -> float:
    """The share of the values below a value, between two of them in proportion; beyond all of them order remains."""
    seen = np.sort(values[np.isfinite(values)])
    without = len(values) - len(seen)
    if not np.isfinite(value) or not len(seen):
        return without / 2 / len(values)
    span = float(np.ptp(seen)) or 1.0
    marks = np.concatenate([[seen[0] - span], seen, [seen[-1] + span]])
    places = np.concatenate([[0.0], np.arange(len(seen)) + 0.5, [len(seen)]])
    return float(without + np.interp(value, marks, places)) / len(values)


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


class AtDepth:
    """What a network promises when it is as deep as it will be: what becomes of images in all its cells.

    Cells that lose a little each look alike in a shallow network. Figures are means over draws of the weights.
    """

    def __init__(self, skeleton: Skeleton, images: Tensor, seed: int) -> None:
        self._skeleton, self._images, self._seed = skeleton, images, seed
        self._known: dict[tuple[int, str], Figures] = {}

    def places(self, cells: int, genotypes: Sequence[Genotype]) -> list[float]:
        """The mean place of each among the others, by arrival and progress, from 0 to 1."""
        figures = np.array([self._look_at(cells, genotype) for genotype in genotypes])
        ranks = [rankdata(column) - 0.5 for column in figures.T]
        return [float(place) for place in np.mean(ranks, axis=0) / len(genotypes)] if genotypes else []

    def _look_at(self, cells: int, genotype: Genotype) -> Figures:
        genotype = without_idle(space_named(genotype.space), genotype)
        name = cells, str(genotype.record())
        if name not in self._known:
            skeleton, seeds = replace(self._skeleton, cells=cells), range(self._seed, self._seed + _DRAWS)
            seen = [look_at_activations(skeleton, genotype, self._images, seed) for seed in seeds]
            self._known[name] = fmean(one.arrival for one in seen), fmean(one.progress for one in seen)
        return self._known[name]


class Worth:
    """What a network is worth: the search's log-odds of its choices, and `weight` times what it promises.

    The promise counts in units of what single choices contribute to it. Log-odds stay as they are: near each other
    while the search is undecided, so that the promise decides, and several units apart once it has decided.
    """

    def __init__(self, space: Space, ours: Scores, untrained: Untrained, weight: float) -> None:
        self._space, self._ours, self._untrained = space, Costs(0.0, ours), untrained
        theirs = {name: score - score.mean(axis=1, keepdims=True) for name, score in untrained.scores().items()}
        spread = float(np.concatenate([score.ravel() for score in theirs.values()]).std()) or 1.0
        self._factor = weight / spread
        self.scores: Scores = {name: score + self._factor * theirs[name] for name, score in ours.items()}

    def __call__(self, choices: Choices) -> float:
        promise = self._untrained.promise(genotype_of(self._space, choices))
        return choices_cost(self._space, self._ours, choices) + self._factor * promise
