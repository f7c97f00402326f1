"""Sources: everything that ranks networks without training them, each a predictor of unknown quality.

The search's α, zero-cost proxies, the networks the search judged and plain size; what each is worth is for
pipeline.selection.evidence to say.
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from torch import Tensor

from pipeline.budget.integer_programme import Scores
from pipeline.selection.evidence import SIZE
from pipeline.selection.short_training import trial_skeleton
from pipeline.selection.structure import Array
from pipeline.selection.zero_cost import activation_proxies, log_synflow
from pipeline.space.cells import CellKind, Space
from pipeline.space.choices import choices_of, hears_input, without_idle
from pipeline.space.costs import Costs
from pipeline.space.genotype import Genotype
from pipeline.space.plan import count_macs, count_params
from pipeline.space.skeleton import Skeleton
from pipeline.space.spaces import space_named

ALPHA, SUPERNET = "alpha", "supernet"  # what a search has found: log-odds of choices, and networks it judged


class Measure(NamedTuple):
    """Figures that are taken together: their names, and how."""

    names: tuple[str, ...]
    of: Callable[[Genotype], Sequence[float]]


class Sources:
    """Figures of networks, more is meant to be better; each network is looked at once.

    Choices without an effect are left out first: they are not there for any image. A network that ignores its input is
    the worst by every figure. `trusts_search` says whether the search behind some of them was long enough to be
    believed unseen.
    """

    def __init__(
        self,
        measures: Sequence[Measure],
        watch: Callable[[], object] = lambda: None,
        trusts_search: bool = True,
    ) -> None:
        self._measures, self._watch, self.trusts_search = tuple(measures), watch, trusts_search
        self._known: dict[str, list[float]] = {}

    @property
    def names(self) -> list[str]:
        return [name for measure in self._measures for name in measure.names]

    def figures(self, genotype: Genotype) -> list[float]:
        """The figures of one network, in the order of the names."""
        space = space_named(genotype.space)
        bare = without_idle(space, genotype.canonical())
        name = str(bare.record())
        if name not in self._known:
            hears = hears_input(space, choices_of(space, bare))
            measured = [float(figure) for measure in self._measures for figure in measure.of(bare)] if hears else []
            self._known[name] = measured or [-math.inf] * len(self.names)
            self._watch()
        return self._known[name]

    def look(self, genotypes: Sequence[Genotype]) -> Array:
        """A row of figures for every network."""
        return np.array([self.figures(genotype) for genotype in genotypes]).reshape(len(genotypes), len(self.names))

    def without(self, idle: Collection[str]) -> "Sources":
        """The same columns, without the work for measures all of whose figures are idle: those are 0 then."""
        kept = [m if set(m.names) - set(idle) else m._replace(of=_nothing(len(m.names))) for m in self._measures]
        return Sources(kept, self._watch, self.trusts_search)


def _nothing(count: int) -> Callable[[Genotype], Sequence[float]]:
    return lambda _: [0.0] * count


def measure_alpha(space: Space, scores: Scores) -> Measure:
    """The sum of the search's log-odds over the choices; of `none`, which it never judged, the mean of the edge's.

    That `none` scores what the weakest operation does keeps a sum that decides alone from cells that pass nothing on.
    As a source it is no news: on NAS-Bench-201 the best cells of tight budgets leave edges out (search-decisions.md).
    """
    costs = Costs(0.0, {kind.name: _with_unjudged(kind, scores[kind.name]) for kind in space.kinds})
    return Measure((ALPHA,), lambda genotype: [costs.of(genotype)])


def _with_unjudged(kind: CellKind, scores: Array) -> Array:
    if not kind.none_is_choice:
        return scores
    none, filled = kind.operations.index("none"), scores.copy()
    filled[:, none] = np.delete(scores, none, axis=1).mean(axis=1)
    return filled


def measure_size(skeleton: Skeleton) -> Measure:
    """Multiply-adds and parameters."""
    return Measure((SIZE, "params"), lambda one: [count_macs(skeleton, one), count_params(skeleton, one)])


def proxy_skeleton(searched: Skeleton, target: Skeleton) -> Skeleton:
    """The layout in which untrained networks are looked at: narrow, as for short trainings, but as deep as the target.

    What passes a signal on through many cells cannot be told by few: published cells of the DARTS space come before
    49 % of random ones of their size by NASWOT in 5 cells, and before 84 % in 20 (search-decisions.md).
    """
    return replace(trial_skeleton(searched), cells=target.cells)


def measure_zero_cost(skeleton: Skeleton, images: Tensor, seed: int) -> list[Measure]:
    """Zero-cost proxies of networks with the layout of `skeleton`, all from one draw of weights.

    Apart as far as they are work of their own: what nobody asks is not computed.
    """

    def measure_activations(genotype: Genotype) -> list[float]:
        shown = activation_proxies(skeleton, genotype, images, seed)
        return [shown.naswot, shown.expressivity, shown.progressivity]

    return [
        Measure(("synflow",), lambda genotype: [log_synflow(skeleton, genotype, seed)]),
        Measure(("naswot", "expressivity", "progressivity"), measure_activations),
    ]
