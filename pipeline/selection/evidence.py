"""How networks are judged: by sources with the weight that they are trusted with, or earn on short trainings.

With x_s the normal scores of source s among the networks considered, a network is as good as

    Σ_s w_s · x_s + slope · ln(multiply-adds),     w_s ≥ t_s.

t_s is trust that needs no short training. A search that was long enough has it, as it has judged networks thousands of
times on the user's images. A short search is worse than none and has no trust. Nor has a finding of a search that does
not agree with two zero-cost proxies on networks of one size, beyond chance, or that the short trainings contradict
there: where searches were right, two so different judges agreed, and where they were wrong, they did not. The two
proxies tell networks of one size apart wherever accuracies are known, and are trusted unless all that the search has
found is: beside that they make choices worse. Weights beyond trust are earned on short
trainings: with y the normal scores of their losses (the best highest), w is the non-negative ridge solution, drawn
towards t, over the sources that agree with y, all together no more than what is trusted
(pipeline.selection.earned_weights). Where chance may explain how all together rank networks left out, t alone decides.

Trainings that begin with random weights prefer early starters, which are small. So they tell networks of one size
apart, and no more: what size explains of y and x is taken out before anything is fitted, and a source without trust is
heard without what size explains of it. What larger networks are worth is a prior. search-decisions.md has what was
measured of each of these choices.
"""

import copy
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from pipeline.selection.earned_weights import earn_weights, normal_scores, place_score
from pipeline.selection.standing import Array, Standing, left_out, standing_of

TOGETHER = "all together"
SIZE = "macs"
# half a standard deviation each: those of a pair agree
_OF_SEARCH = {"alpha": 0.5, "supernet": 0.5}
_OF_PROXIES = {"naswot": 0.5, "expressivity": 0.5}
SIZE_SLOPE = 1.0
"""Standard deviations for every e-fold of multiply-adds: half of one for half of the range of a space."""
_ROUNDING = 1e-9
_FEWEST_TO_DOUBT = 12  # networks: of fewer a bootstrap knows no interval


class Evidence:
    """Figures of trained networks, a row each, and what they ended with; `reference` has those of all considered.

    `trusts_search` says whether a search was long enough to be believed without them; `doubted` are those of its
    findings that lose this trust, to the proxies.
    """

    def __init__(
        self,
        names: Sequence[str],
        figures: Array,
        losses: Sequence[float],
        reference: Array,
        trusts_search: bool = True,
    ) -> None:
        self.names, self._figures, self._losses, self._reference = tuple(names), figures, list(losses), reference
        self._trusts_search = trusts_search
        scores, known = self._scores(figures), self._scores(reference)
        size = self._size_of(scores)
        self._x, self._y = _within(size, scores), _within(size, normal_scores(-np.array(losses)))
        self.doubted = [*dict.fromkeys([*self._alone(known), *self._refuted()])] if trusts_search else []
        is_sound = trusts_search and not self.doubted and any(name in _OF_SEARCH for name in names)
        believed = _OF_SEARCH if is_sound else {**_OF_PROXIES, **(_OF_SEARCH if trusts_search else {})}
        trust = np.array([0.0 if name in self.doubted else believed.get(name, 0.0) for name in self.names])
        self._share_of_size = np.where(trust > 0, 0.0, _slope(self._size_of(known), known))
        self._trust, self.weights = trust, earn_weights(self._x, self._y, trust)

    def _alone(self, known: Array) -> list[str]:
        """What a search has found that does not agree with the proxies on networks of one size, beyond chance."""
        proxies = [place for place, name in enumerate(self.names) if name in _OF_PROXIES]
        if len(known) < _FEWEST_TO_DOUBT or not proxies:
            return []
        beside_size = _within(self._size_of(known), known)
        told = beside_size[:, proxies].sum(1)
        return [name for name, x in self._found(beside_size) if standing_of(name, x, told, None).low <= 0]

    def _refuted(self) -> list[str]:
        """What a search has found that short trainings contradict among networks of one size, beyond chance."""
        if len(self._y) < _FEWEST_TO_DOUBT:
            return []
        return [name for name, x in self._found(self._x) if standing_of(name, x, self._y, None).high < 0]

    def _found(self, columns: Array) -> list[tuple[str, Array]]:
        """The columns of what a search has found."""
        return [(name, x) for name, x in zip(self.names, columns.T, strict=True) if name in _OF_SEARCH]

    def _size_of(self, scores: Array) -> Array:
        """The normal scores of size; 0 where it is not among the sources."""
        return np.asarray(scores[:, self.names.index(SIZE)]) if SIZE in self.names else np.zeros(len(scores))

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

    def predict(self, figures: Array) -> Array:
        """How good networks with these figures are, in about standard deviations of those considered."""
        scores = self._scores(figures)
        heard = scores - np.outer(self._size_of(scores), self._share_of_size)
        return np.asarray(heard @ self.weights + SIZE_SLOPE * self._log_size(figures))

    def proven(self) -> "Evidence":
        """This, without what was earned where chance may explain how all together rank networks left out."""
        if not self._losses or self.together.low > 0:
            return self
        trusting = copy.copy(self)
        trusting.weights = self._trust
        return trusting

    def standings(self) -> list[Standing]:
        """A row per source, and one for predictions of left-out networks by all together; none untrained.

        All among networks as if of one size: size is for the prior to say.
        """
        if not self._losses:
            return []
        columns = zip(self.names, self._x.T, self.weights, strict=True)
        return [*(standing_of(name, x, self._y, float(weight)) for name, x, weight in columns), self.together]

    @cached_property
    def together(self) -> Standing:
        """How predictions of left-out networks by all together agree with what those reached."""

        def predict_rest(train: Sequence[int], test: Sequence[int]) -> Array:
            losses = [self._losses[row] for row in train]
            fitted = Evidence(self.names, self._figures[train], losses, self._reference, self._trusts_search)
            return fitted.predict(self._figures[test])

        size = self._size_of(self._scores(self._figures))
        predicted = _within(size, left_out(predict_rest, len(self._losses)))
        return standing_of(TOGETHER, predicted, self._y, None)

    def _scores(self, figures: Array) -> Array:
        rows = [[place_score(*pair) for pair in zip(self._reference.T, row, strict=True)] for row in figures]
        return np.array(rows).reshape(len(figures), len(self.names))


def _within(size: Array, values: Array) -> Array:
    """What a constant and size leave unexplained of a value, or of several, of every network."""
    if not len(values):
        return values
    rest = values - values.mean(0) - np.multiply.outer(size - size.mean(), _slope(size, values))
    return np.where(np.abs(rest) < _ROUNDING, 0.0, rest)  # of size itself there is nothing left


def _slope(x: Array, values: Array) -> Array:
    """Of the least-squares line in x of a value, or of several; 0 where x is constant."""
    spread = x - x.mean()
    return np.asarray(spread @ values / (spread @ spread) if spread.any() else 0.0 * values[0])
