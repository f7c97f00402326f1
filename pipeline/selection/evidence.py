"""What short trainings say about every source of judgement, and about networks that were not trained.

With y the normal scores of the trained networks' losses (the best highest) and x_s those of source s among the networks
considered,

    y = Σ_s w_s · x_s + f(structure) + ε,     w_s ≥ t_s.

t_s is trust that needs no short training: a search that was long enough has judged networks on the same images,
thousands of times, which says more about a finished network than its first hundreds of steps do. A short one is worse
than none, and has no trust; nor has a finding that ranks networks of one size the wrong way round, beyond chance
(search-decisions.md). All other sources earn what they get, together no more than a trusted search has: w is the
non-negative ridge solution, drawn towards t, whose ridge predicts left-out networks best (an infinite one among the
choices), over the sources whose own rank correlation is positive. f is a Gaussian process over the structure
(pipeline.selection.structure_process). It learns what short trainings prefer, early starters too, so it is there only
where no search is trusted. Without short trainings w = t, that of a search of any length.

Early starters are small. So short trainings tell networks of one size apart, and no more: what ln size explains of y is
taken out before the fit, and larger is better instead, by a slope for every e-fold that is smaller beside a trusted
search: its networks train together, shortly too, and know a part of it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pipeline.selection.earned_weights import earn_weights, normal_scores, place_score
from pipeline.selection.standing import Standing, left_out, standing_of
from pipeline.selection.structure_process import Array, Prediction, Shapes, StructureProcess
from pipeline.space.choices import Choices

STRUCTURE, TOGETHER = "structure", "all together"
SIZE = "macs"
# of the search's sources; the sum of both, which agree, then spreads about as far as y
_TRUST = {"alpha": 0.5, "supernet": 0.5}
# standard deviations for every e-fold of multiply-adds: half of one, or a fifth beside a search, for a fifth more
_SIZE_SLOPE, _SIZE_SLOPE_BESIDE_SEARCH = 3.0, 1.0
_FEWEST_TO_REFUTE = 12  # short trainings: of fewer a bootstrap knows no interval


class Looks(NamedTuple):
    """Networks as the model sees them: a row of figures by source, counts and depths, choices with an effect."""

    figures: Array
    counts: Array
    choices: Sequence[Choices]

    @property
    def shapes(self) -> Shapes:
        return Shapes(self.counts, self.choices)

    def part(self, rows: Sequence[int]) -> "Looks":
        return Looks(self.figures[rows], self.counts[rows], [self.choices[row] for row in rows])


class Evidence:
    """The model fitted to trained networks, if any. `reference` holds the figures of all considered, for ranks.

    `trusts_search` says whether a search was long enough to be believed without them; `refuted` are those of its
    findings that the trained networks contradict all the same.
    """

    def __init__(
        self,
        names: Sequence[str],
        looks: Looks,
        losses: Sequence[float],
        reference: Array,
        trusts_search: bool = True,
    ) -> None:
        self.names, self._looks, self._losses, self._reference = tuple(names), looks, list(losses), reference
        self._trusts_search = trusts_search
        self._x, self._y = self._scores(looks.figures), self._within_size(normal_scores([-loss for loss in losses]))
        self.refuted = self._refuted()
        trusted = _TRUST if trusts_search or not losses else {}
        trust = np.array([0.0 if name in self.refuted else trusted.get(name, 0.0) for name in self.names])
        self.goes_by_search = bool(trust.any()) or not losses
        self.weights = earn_weights(self._x, self._y, trust)
        residuals = self._y - self._x @ self.weights
        self.process = None if self.goes_by_search else StructureProcess(looks.shapes, residuals)

    @property
    def structure_weight(self) -> float:
        """How far f spreads; of networks that were trained it also holds what they reached themselves."""
        return 0.0 if self.process is None else self.process.deviation

    def _refuted(self) -> list[str]:
        """What a search has found that short trainings contradict among networks of one size, beyond chance."""
        if len(self._y) < _FEWEST_TO_REFUTE:
            return []
        columns = {name: self._x[:, s] for s, name in enumerate(self.names) if name in _TRUST}
        return [name for name, x in columns.items() if standing_of(name, self._within_size(x), self._y, None).high < 0]

    def _within_size(self, values: Array) -> Array:
        """What ln size leaves unexplained of a value of every trained network."""
        size = self._log_size(self._looks.figures)
        spread = size - size.mean() if len(size) else size
        if not spread.any():
            return values
        return np.asarray(values - spread * (spread @ values) / (spread @ spread))

    def _log_size(self, figures: Array) -> Array:
        """ln multiply-adds, from the mean of the networks considered; 0 where they are not among the sources."""
        if SIZE not in self.names:
            return np.zeros(len(figures))
        sizes, known = (np.log(np.maximum(rows[:, self.names.index(SIZE)], 1.0)) for rows in (figures, self._reference))
        return np.asarray(sizes - known.mean())

    @property
    def idle(self) -> list[str]:
        """Sources that no prediction asks."""
        pairs = zip(self.names, self.weights, strict=True)
        return [name for name, weight in pairs if not weight and name != SIZE]

    def predict(self, looks: Looks) -> Prediction:
        """What networks would reach, as normal scores among the trained ones."""
        found = self.predict_within_size(looks)
        return found._replace(mean=found.mean + self.size_slope * self._log_size(looks.figures))

    @property
    def size_slope(self) -> float:
        """What an e-fold of multiply-adds is taken to be worth, in standard deviations."""
        return _SIZE_SLOPE_BESIDE_SEARCH if self.goes_by_search else _SIZE_SLOPE

    def predict_within_size(self, looks: Looks) -> Prediction:
        """The same of what the trained networks tell alone."""
        by_sources = self._scores(looks.figures) @ self.weights
        if self.process is None:
            return Prediction(by_sources, np.zeros_like(by_sources))
        mean, deviation = self.process.predict(looks.shapes)
        return Prediction(by_sources + mean, deviation)

    def standings(self) -> list[Standing]:
        """A row per source, then what was learned: from the structure alone, and from all together; none untrained.

        Size is for the prior to say: τ is that with losses as if all networks were of one size.
        """
        if not self._losses:
            return []
        looks, y = self._looks, self._y
        rows = [standing_of(name, self._x[:, s], y, float(self.weights[s])) for s, name in enumerate(self.names)]

        def by_structure(train: Sequence[int], test: Sequence[int]) -> Array:
            return StructureProcess(looks.part(train).shapes, y[train]).predict(looks.part(test).shapes).mean

        def by_all(train: Sequence[int], test: Sequence[int]) -> Array:
            losses = [self._losses[row] for row in train]
            fitted = Evidence(self.names, looks.part(train), losses, self._reference, self._trusts_search)
            return fitted.predict_within_size(looks.part(test)).mean

        return [
            *rows,
            standing_of(STRUCTURE, left_out(by_structure, len(y)), y, self.structure_weight),
            standing_of(TOGETHER, left_out(by_all, len(y)), y, None),
        ]

    def _scores(self, figures: Array) -> Array:
        rows = [[place_score(*pair) for pair in zip(self._reference.T, row, strict=True)] for row in figures]
        return np.array(rows).reshape(len(figures), len(self.names))
