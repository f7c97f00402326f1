"""From a network that keeps the budget to a better one, one measurement at a time.

The most worthy networks make a shortlist; which of them is best is decided at the depth they will have. Predictions
err, and a better network is a gamble if its predicted latency is near the budget, or even over it: next is measured
whatever promises the most gain, the chance that it keeps the budget times how far it is ahead of the best one known to
keep it. Every measurement corrects the chances of networks that cost about as much.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.budget.integer_programme import best_candidates
from pipeline.budget.targets import Demands
from pipeline.errors import PromiseBroken
from pipeline.selection.candidate import Pick
from pipeline.selection.certification import Certified, Measure, Round, try_out
from pipeline.selection.chooser import Chooser
from pipeline.selection.evolution import Climber
from pipeline.space.choices import Choices, choices_cost, effective_choices, genotype_of
from pipeline.space.genotype import Genotype

_STARTS = 8  # highest sums that a climb begins with
_SHORTLIST, _SHORTLIST_SHARE = 32, 4  # at most so many networks, and one of so many that were asked
_OUTSIDE = -1.0  # place of what is not on the shortlist, below all that are (0 to 1)
_WORTH_A_TRY = 0.2  # chance to keep the budget below which a network is not looked at
_LIKE_COST = 0.3  # distance of ln cost over which prediction errors are alike
_SHARED_ERROR = 0.1  # standard deviation of what they share: a machine is not always what its table says
_LEAST_ERROR = 0.02
_LATER_ASKS = 8  # part of the asks of a first climb that later ones have
_NORMAL = NormalDist()


class Trust:
    """How far predictions can be trusted: a Gaussian process over ln cost.

    Of an error one part is shared by networks of like cost and one is a network's own; 95 % of the latter stay within
    `error`. Costs and measurements are shares of what is allowed.
    """

    def __init__(self, error: float) -> None:
        self._own = (max(error, _LEAST_ERROR) / _NORMAL.inv_cdf(0.975)) ** 2
        self._costs, self._misses = list[float](), list[float]()

    def learn(self, cost: float, measured: float) -> None:
        self._costs.append(math.log(cost))
        self._misses.append(math.log(measured / cost))

    def chance(self, cost: float) -> float:
        """The probability that a network keeps its budget."""
        at, costs = math.log(cost), np.array(self._costs)
        covariance = _alike(costs[:, None] - costs) + self._own * np.eye(len(costs))
        near = _alike(costs - at)
        weights = np.linalg.solve(covariance, near)
        mean, shared = float(weights @ np.array(self._misses)), _SHARED_ERROR**2 - float(weights @ near)
        return _NORMAL.cdf(-(at + mean) / math.sqrt(shared + self._own))


def _alike(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """The covariance of what two networks share, by the distance of their ln cost."""
    return _SHARED_ERROR**2 * np.exp(-((distances / _LIKE_COST) ** 2) / 2)


class Guide(NamedTuple):
    """What leads to better networks: a climber, and places among networks of so many cells (0 to 1)."""

    climber: Climber
    places: Callable[[int, Sequence[Genotype]], list[float]]


def best_gamble(places: Mapping[Choices, float], floor: float, chance: Callable[[Choices], float]) -> Choices | None:
    """What to measure next: the largest chance × places ahead of `floor`; None when nothing is ahead."""
    gains = {choices: (place - floor) * chance(choices) for choices, place in places.items() if place > floor}
    return max(gains, key=lambda choices: gains[choices], default=None)


class Improver:
    """Looks for better networks of the skeleton that the certified one has."""

    def __init__(self, chooser: Chooser, guide: Guide, demands: Demands, certified: Certified) -> None:
        self._chooser, self._climber, self._places, self._demands = chooser, *guide, demands
        self._certified, self._target = certified, certified.round.pick.target
        self._limit, *self._other_limits = self._target.limits(demands)
        self._rounds = [d for d in certified.rounds if d.pick.target.skeleton == self._target.skeleton]
        predicted = certified.round.pick.predicted
        self._trust = Trust((predicted.high_ms - predicted.low_ms) / 2 / predicted.ms)
        for done in self._rounds:
            self._learn(done)
        self._asks = self._climber.asks

    def improve(self, measure: Measure, tries: int, max_noise_floor: float) -> Certified:
        """The best network after so many measurements more."""
        before = len(self._rounds)
        while len(self._rounds) < before + tries and self._try_next(measure, max_noise_floor):
            pass
        places = self._shortlist()
        best = max(self._fitting, key=lambda done: places.get(done.pick.choices, _OUTSIDE))
        return self._certified._replace(round=best, rounds=(*self._certified.rounds, *self._rounds[before:]))

    def field(self) -> list[Pick]:
        """Networks that were not measured and fit more likely than not: the shortlist first, then by worth."""
        places, fitting = self._shortlist(), {done.pick.choices for done in self._fitting}
        ordered = sorted(self._worthy(), key=lambda choices: -places.get(choices, _OUTSIDE))
        return [self._pick(one) for one in ordered if one not in fitting and self._chance(one) > 0.5]

    @property
    def _fitting(self) -> list[Round]:
        return [done for done in self._rounds if done.fits]

    def _try_next(self, measure: Measure, max_noise_floor: float) -> bool:
        """Measure the network that promises most gain; False when none does."""
        places = self._shortlist()
        floor = max(places.get(done.pick.choices, _OUTSIDE) for done in self._fitting)
        chosen = best_gamble(places, floor, self._chance)
        if chosen is None:
            return False
        try:
            done = try_out(self._pick(chosen), self._limit.at_most, self._demands, measure, max_noise_floor)
        except PromiseBroken:
            return False  # there is a certified network; a rival that cannot be measured is no rival
        self._rounds.append(done)
        self._learn(done)
        return True

    def _shortlist(self) -> dict[Choices, float]:
        """The first of the worthy networks, with their places at full depth."""
        worthy = self._worthy()
        kept = worthy[: min(_SHORTLIST, -(-len(worthy) // _SHORTLIST_SHARE))]
        genotypes = [genotype_of(self._chooser.space, choices) for choices in kept]
        return dict(zip(kept, self._places(self._target.skeleton.cells, genotypes), strict=True))

    def _worthy(self) -> list[Choices]:
        """Networks that keep the budget or have a fair chance to, the most worthy first.

        A copy with another idle choice is no other network: it stands for one that was measured.
        """
        space, fitting = self._chooser.space, [done.pick.choices for done in self._fitting]
        measured = {effective_choices(space, done.pick.choices): done for done in self._rounds}
        found: dict[Choices, Choices] = {}
        for choices in sorted({*self._climb(), *fitting}, key=lambda one: (-self._climber.worth(one), sorted(one))):
            felt = effective_choices(space, choices)
            known = measured.get(felt)
            if known is None or known.fits:
                found.setdefault(felt, known.pick.choices if known else choices)
        return list(found.values())

    def _climb(self) -> list[Choices]:
        """Networks that have a fair chance."""
        limits = self._target.limits(self._demands, self._certified.factor)
        sums = best_candidates(self._chooser.programme, limits, _STARTS, 1, self._target.latency)
        starts = [self._certified.round.pick.choices, *(solution.choices for solution in sums)]
        found = self._climber.climb(starts, self._is_fair, self._asks)
        self._asks = self._climber.asks // _LATER_ASKS
        return found

    def _is_fair(self, choices: Choices) -> bool:
        """Within all limits, as far as the budget has a chance to be kept."""
        space = self._chooser.space
        within = all(limit.allows(choices_cost(space, limit.costs, choices)) for limit in self._other_limits)
        return within and self._chance(choices) >= _WORTH_A_TRY

    def _pick(self, choices: Choices) -> Pick:
        return self._chooser.pick_genotype(self._target, genotype_of(self._chooser.space, choices))

    def _chance(self, choices: Choices) -> float:
        return self._trust.chance(self._share(choices))

    def _share(self, choices: Choices) -> float:
        """What the programme counts for a network over what it allows; a poor calibration may count less than 0."""
        cost_ms = choices_cost(self._chooser.space, self._target.latency, choices)
        return max(cost_ms / self._limit.at_most, 1e-3)

    def _learn(self, done: Round) -> None:
        taken = done.measured.at(self._demands.percentile) / self._demands.budget_ms
        if math.isfinite(taken):
            self._trust.learn(self._share(done.pick.choices), taken)
