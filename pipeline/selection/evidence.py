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

from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls
from scipy.stats import kendalltau, rankdata

from pipeline.selection.structure_process import Array, Prediction, Shapes, StructureProcess
from pipeline.space.choices import Choices

STRUCTURE, TOGETHER = "structure", "all together"
SIZE = "macs"
_RIDGES = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 1e9)
# of the search's sources; the sum of both, which agree, then spreads about as far as y
_TRUST = {"alpha": 0.5, "supernet": 0.5}
# standard deviations for every e-fold of multiply-adds: half of one, or a fifth beside a search, for a fifth more
_SIZE_SLOPE, _SIZE_SLOPE_BESIDE_SEARCH = 3.0, 1.0
_RESAMPLES, _FOLDS, _FEWEST = 200, 5, 4
_FEWEST_TO_REFUTE = 12  # short trainings: of fewer a bootstrap knows no interval
_NORMAL = NormalDist()


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


class Standing(NamedTuple):
    """How a source did on the trained networks: Kendall's τ with its 95 % interval, and the weight it earned.

    The τ of what is learned from the trained networks is that of predictions for networks left out of the fit.
    """

    source: str
    tau: float
    low: float
    high: float
    weight: float | None


def normal_scores(values: Sequence[float] | Array) -> Array:
    """The normal quantiles of the values' ranks; equal values share one."""
    ranks = rankdata(values)
    return np.array([_NORMAL.inv_cdf(rank / (len(ranks) + 1)) for rank in ranks])


def place_score(reference: Array, value: float) -> float:
    """The normal quantile of a value's place among others; between two of them in proportion."""
    known = np.sort(reference[np.isfinite(reference)])
    below = len(reference) - len(known)  # −∞: networks that the source says pass nothing on
    if not np.isfinite(value) or not len(known):
        place = below / 2
    else:
        span = float(np.ptp(known)) or 1.0
        marks = np.concatenate([[known[0] - span], known, [known[-1] + span]])
        place = below + float(
            np.interp(value, marks, np.concatenate([[0.0], np.arange(len(known)) + 0.5, [len(known)]]))
        )
    return _NORMAL.inv_cdf((place + 0.5) / (len(reference) + 1))


def earn_weights(x: Array, y: Array, trust: Array) -> Array:
    """Non-negative ridge weights of the columns that agree with y, the ridge by leaving one out; none below `trust`.

    Columns without trust have no more weight than those with it, if there are such. The squared error of a left-out row
    is that of a fit without it; the largest ridge, which leaves trust as it is, is taken unless a smaller one predicts
    better, and beside trust by more than one standard error: of eight trainings some source pleases by chance.
    """
    weights = trust.copy()
    agree = [s for s in range(x.shape[1]) if tau_of(x[:, s], y) > 0] if len(y) >= _FEWEST else []
    if not agree:
        return weights
    kept, rows = x[:, agree], np.arange(len(y))

    def errors(ridge: float) -> Array:
        return np.array(
            [(y[i] - kept[i] @ _ridge_fit(kept[rows != i], y[rows != i], ridge, trust[agree])) ** 2 for i in rows]
        )

    by_ridge = {ridge: errors(ridge) for ridge in reversed(_RIDGES)}
    best = min(by_ridge, key=lambda ridge: float(by_ridge[ridge].sum()))
    gain = by_ridge[_RIDGES[-1]] - by_ridge[best]
    if trust.any() and gain.mean() <= gain.std(ddof=1) / np.sqrt(len(gain)):
        return weights
    weights[agree] = np.maximum(trust[agree], _ridge_fit(kept, y, best, trust[agree]))
    earned, trusted = weights[trust == 0].sum(), weights[trust > 0].sum()
    if earned > trusted > 0:
        weights[trust == 0] *= trusted / earned
    return weights


def _ridge_fit(x: Array, y: Array, ridge: float, trust: Array) -> Array:
    """argmin over w ≥ 0 of ‖y − x·w‖² + ridge · ‖w − trust‖²."""
    size = x.shape[1]
    stacked = np.vstack([x, np.sqrt(ridge) * np.eye(size)])
    found: Array = nnls(stacked, np.concatenate([y, np.sqrt(ridge) * trust]))[0]
    return found


def tau_of(x: Array, y: Array) -> float:
    """Kendall's τ; 0 where one side is constant."""
    tau = kendalltau(x, y).statistic
    return float(tau) if np.isfinite(tau) else 0.0


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
        return [name for name, x in columns.items() if _standing(name, self._within_size(x), self._y, None).high < 0]

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
        rows = [_standing(name, self._x[:, s], y, float(self.weights[s])) for s, name in enumerate(self.names)]

        def by_structure(train: Sequence[int], test: Sequence[int]) -> Array:
            return StructureProcess(looks.part(train).shapes, y[train]).predict(looks.part(test).shapes).mean

        def by_all(train: Sequence[int], test: Sequence[int]) -> Array:
            losses = [self._losses[row] for row in train]
            fitted = Evidence(self.names, looks.part(train), losses, self._reference, self._trusts_search)
            return fitted.predict_within_size(looks.part(test)).mean

        return [
            *rows,
            _standing(STRUCTURE, _left_out(by_structure, len(y)), y, self.structure_weight),
            _standing(TOGETHER, _left_out(by_all, len(y)), y, None),
        ]

    def _scores(self, figures: Array) -> Array:
        rows = [[place_score(*pair) for pair in zip(self._reference.T, row, strict=True)] for row in figures]
        return np.array(rows).reshape(len(figures), len(self.names))


def _left_out(predict: Callable[[Sequence[int], Sequence[int]], Array], count: int) -> Array:
    """Predictions for networks by fits without them; `predict` takes the places of those fitted and of those asked."""
    predicted = np.zeros(count)
    if count < _FEWEST:
        return predicted
    for fold in range(min(_FOLDS, count)):
        test = list(range(fold, count, _FOLDS))
        predicted[test] = predict([row for row in range(count) if row not in test], test)
    return predicted


def _standing(source: str, x: Array, y: Array, weight: float | None) -> Standing:
    """τ with a bootstrap interval."""
    drawn = np.random.default_rng(0).integers(len(y), size=(_RESAMPLES, len(y)))
    low, high = np.percentile([tau_of(x[rows], y[rows]) for rows in drawn], [2.5, 97.5])
    return Standing(source, tau_of(x, y), float(low), float(high), weight)
