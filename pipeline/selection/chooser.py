"""Choosing skeleton and cell together.

The score judges cells, not sizes: it is the same in every skeleton. So the largest skeleton is taken in which a cell
still keeps `score_share` of what the search found, where a random cell has share 0 and the best one 1.
"""

from collections.abc import Sequence

import numpy as np

from pipeline.budget.integer_programme import Cut, Programme, Scores, Solution
from pipeline.budget.targets import Demands, Target
from pipeline.selection.candidate import Candidate
from pipeline.space.cells import Space
from pipeline.space.choices import choices_cost, choices_of, genotype_of
from pipeline.space.costs import Costs
from pipeline.space.genotype import Genotype


class Chooser:
    """Finds the network to take, in all targets together, for one result of a search."""

    def __init__(self, space: Space, scores: Scores, targets: Sequence[Target], score_share: float) -> None:
        self.space, self.targets, self._score_share = space, tuple(targets), score_share
        self.programme = Programme(space, scores)
        self._scores = Costs(0.0, scores)
        unlimited = self.programme.best()
        assert unlimited is not None  # without limits every space has a network
        self._best, self._random = unlimited.score, random_score(space, scores)

    def choose(self, demands: Demands, factor: float = 1.0, failed: Sequence[Candidate] = ()) -> Candidate | None:
        """The network to take within the demands, without those that failed; None when there is none."""
        found = self.options(demands, factor, failed)
        if not found:
            return None
        good = [one for one in found if one.share >= self._score_share]
        if good:
            return max(good, key=lambda one: (one.macs, one.score))
        return max(found, key=lambda one: (one.score, one.macs))

    def options(self, demands: Demands, factor: float = 1.0, failed: Sequence[Candidate] = ()) -> list[Candidate]:
        """The best feasible network of every target that has one."""
        found = []
        for target in self.targets:
            cuts = [Cut(one.choices, len(one.choices) - 1) for one in failed if one.target.skeleton == target.skeleton]
            solution = self.programme.best(target.limits(demands, factor), cuts, ties=target.latency)
            if solution is not None:
                found.append(self._candidate(target, solution))
        return found

    def fastest(self, demands: Demands) -> Candidate | None:
        """The network with the smallest predicted latency that keeps all demands but the budget."""
        found = []
        for target in self.targets:
            chosen = self.programme.cheapest(target.latency, target.limits(demands)[1:])
            if chosen is not None:
                score = choices_cost(self.space, self._scores, chosen)
                found.append(self._candidate(target, Solution(chosen, score, 0.0, 0.0)))
        return min(found, key=lambda one: one.predicted.ms, default=None)

    def _candidate(self, target: Target, solution: Solution) -> Candidate:
        """A solution as a network of the target."""
        genotype = genotype_of(self.space, solution.choices)
        share = self.share_of(solution.score)
        return Candidate(target, genotype, solution.choices, solution.score, share, solution.gap, solution.seconds)

    def candidate_of(self, target: Target, genotype: Genotype) -> Candidate:
        """A given genotype as a network of the target."""
        choices = choices_of(self.space, genotype)
        return self._candidate(target, Solution(choices, choices_cost(self.space, self._scores, choices), 0.0, 0.0))

    def share_of(self, score: float) -> float:
        """Where a score lies between the mean of random cells and the best cell."""
        return (score - self._random) / (self._best - self._random) if self._best > self._random else 1.0


def random_score(space: Space, scores: Scores) -> float:
    """The mean score of a network drawn evenly: inputs of a node, then operations."""
    total = 0.0
    for kind in space.kinds:
        score = np.where(np.isfinite(scores[kind.name]), scores[kind.name], np.nan)
        per_edge = np.nanmean(score, axis=1)
        for node in range(kind.nodes):
            incoming = list(kind.edges_into(node))
            keep = len(incoming) if kind.keep is None else kind.keep
            total += keep * float(per_edge[incoming].mean())
    return total
