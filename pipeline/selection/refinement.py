"""From a network that keeps the budget to a better one, one measurement at a time.

Predictions err: a better network whose predicted latency is near the budget, or even over it, may fit or not. Next is
measured whatever has the largest expected gain, the probability that it fits times how far its score is ahead of the
best one known to fit. Every measurement corrects the probabilities of networks that cost about as much. Long shots are
tried when no better network is likely to fit: looking for both at once would find fewer of the likely ones.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from pipeline.budget.integer_programme import best_candidates
from pipeline.budget.targets import Demands
from pipeline.errors import PromiseBroken
from pipeline.selection.candidate import Candidate
from pipeline.selection.certification import Certified, Measure, measure_candidate
from pipeline.selection.chooser import Chooser
from pipeline.selection.evolution import Evolution
from pipeline.space.choices import Choices, choices_cost, effective_choices, genotype_of

_STARTS = 8  # highest sums that an evolution begins with
_LIKELY, _LONG_SHOT = 0.2, 0.05  # probabilities to fit, below which a network is not looked at, or never
_LIKE_COST = 0.3  # distance of ln cost over which prediction errors are alike
_SHARED_ERROR = 0.1  # standard deviation of what they share: a machine is not always what its table says
_LEAST_ERROR = 0.02
_LATER_PART = 8  # part of the evaluations of a first evolution that later ones have
_NORMAL = NormalDist()


class FitProbability:
    """The probability that a network keeps its budget: a Gaussian process over ln cost.

    Of a prediction's error one part is shared by networks of like cost and one is a network's own; 95 % of the latter
    stay within `error`. Costs and measurements are shares of what is allowed.
    """

    def __init__(self, error: float) -> None:
        self._own = (max(error, _LEAST_ERROR) / _NORMAL.inv_cdf(0.975)) ** 2
        self._costs, self._misses = list[float](), list[float]()

    def learn(self, cost: float, measured: float) -> None:
        self._costs.append(math.log(cost))
        self._misses.append(math.log(measured / cost))

    def of(self, cost: float) -> float:
        at, costs = math.log(cost), np.array(self._costs)
        covariance = _alike(costs[:, None] - costs) + self._own * np.eye(len(costs))
        near = _alike(costs - at)
        weights = np.linalg.solve(covariance, near)
        mean, shared = float(weights @ np.array(self._misses)), _SHARED_ERROR**2 - float(weights @ near)
        return _NORMAL.cdf(-(at + mean) / math.sqrt(shared + self._own))


def _alike(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """The covariance of what two networks share, by the distance of their ln cost."""
    return _SHARED_ERROR**2 * np.exp(-((distances / _LIKE_COST) ** 2) / 2)


def largest_gain(
    scores: Mapping[Choices, float], floor: float, probability: Callable[[Choices], float]
) -> Choices | None:
    """The largest expected gain, probability to fit × score ahead of `floor`; None when nothing is ahead."""
    gains = {choices: (score - floor) * probability(choices) for choices, score in scores.items() if score > floor}
    return max(gains, key=lambda choices: gains[choices], default=None)


class Refinement:
    """Looks for better networks of the skeleton that the certified one has."""

    def __init__(
        self,
        chooser: Chooser,
        evolution: Evolution,
        demands: Demands,
        certified: Certified,
        starts: Sequence[Choices] = (),
    ) -> None:
        self._chooser, self._evolution, self._demands, self._starts = chooser, evolution, demands, starts
        self._certified, self._target = certified, certified.best.target
        self._limit, *self._other_limits = self._target.limits(demands)
        self._tried = [one for one in certified.tried if one.target.skeleton == self._target.skeleton]
        predicted = certified.best.predicted
        self._probability = FitProbability((predicted.high_ms - predicted.low_ms) / 2 / predicted.ms)
        for one in self._tried:
            self._learn(one)
        self._evaluations = evolution.evaluations

    def refine(self, measure: Measure, tries: int, max_noise_floor: float) -> Certified:
        """The best network after so many measurements more."""
        before = len(self._tried)
        while len(self._tried) < before + tries and self._try_next(measure, max_noise_floor):
            pass
        everything = (*self._certified.tried, *self._tried[before:])
        tried = tuple(replace(one, judged=self._evolution.score(one.choices)) for one in everything)
        alike = [one for one in tried if one.target.skeleton == self._target.skeleton]
        return self._certified._replace(best=max(self._safest(alike), key=lambda one: one.judged or 0.0), tried=tried)

    def _safest(self, tried: Sequence[Candidate]) -> list[Candidate]:
        """Those that spare something of the budget; where none does, those that keep it."""
        budget = (self._demands.budget_ms, self._demands.percentile)
        return [one for one in tried if one.timing.spares(*budget)] or [one for one in tried if one.fits]

    def _try_next(self, measure: Measure, max_noise_floor: float) -> bool:
        """Measure the network with the largest expected gain; False when there is none."""
        chosen = self._most_promising(_LIKELY) or self._most_promising(_LONG_SHOT)
        if chosen is None:
            return False
        candidate = self._chooser.candidate_of(self._target, genotype_of(self._chooser.space, chosen))
        try:
            done = measure_candidate(candidate, self._limit.at_most, self._demands, measure, max_noise_floor)
        except PromiseBroken:
            return False  # there is a certified network; a rival that cannot be measured is no rival
        self._tried.append(done)
        self._learn(done)
        return True

    def _most_promising(self, least: float) -> Choices | None:
        """The largest expected gain among networks that fit with so much probability at least; None without any."""
        scores = {choices: self._evolution.score(choices) for choices in self._unmeasured(least)}
        floor = max(self._evolution.score(one.choices) for one in self._safest(self._tried))
        return largest_gain(scores, floor, self._fit_probability)

    def _unmeasured(self, least: float) -> list[Choices]:
        """Networks that may keep the budget and were not measured.

        A copy of a measured network with another choice that has no effect is no other network.
        """
        space = self._chooser.space
        measured = {effective_choices(space, one.choices) for one in self._tried}
        return [one for one in self._evolve(least) if effective_choices(space, one) not in measured]

    def _evolve(self, least: float) -> list[Choices]:
        limits = self._target.limits(self._demands, self._certified.factor)
        sums = best_candidates(self._chooser.programme, limits, _STARTS, 1, self._target.latency)
        starts = [self._certified.best.choices, *self._starts, *(solution.choices for solution in sums)]
        found = self._evolution.evolve(starts, lambda choices: self._may_fit(choices, least), self._evaluations)
        self._evaluations = self._evolution.evaluations // _LATER_PART
        return found

    def _may_fit(self, choices: Choices, least: float) -> bool:
        """Within all limits, as far as the budget has a chance to be kept."""
        space = self._chooser.space
        within = all(limit.allows(choices_cost(space, limit.costs, choices)) for limit in self._other_limits)
        return within and self._fit_probability(choices) >= least

    def _fit_probability(self, choices: Choices) -> float:
        return self._probability.of(self._share(choices))

    def _share(self, choices: Choices) -> float:
        """What the programme counts for a network over what it allows; a poor calibration may count less than 0."""
        cost_ms = choices_cost(self._chooser.space, self._target.latency, choices)
        return max(cost_ms / self._limit.at_most, 1e-3)

    def _learn(self, done: Candidate) -> None:
        taken = done.timing.at(self._demands.percentile) / done.timing.leaving_drift(self._demands.budget_ms)
        if math.isfinite(taken):
            self._probability.learn(self._share(done.choices), taken)
