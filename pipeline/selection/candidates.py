"""Candidates: the best networks that differ enough to teach something when they are compared."""

from collections.abc import Iterator, Sequence

from pipeline.selection.choices import effective_choices
from pipeline.selection.limits import Limit
from pipeline.selection.milp import Cut, Programme, Solution
from pipeline.space.costs import Costs


def best_candidates(
    programme: Programme,
    limits: Sequence[Limit],
    count: int,
    difference: int,
    ties: Costs | None = None,
    known: Sequence[Solution] = (),
) -> Iterator[Solution]:
    """Up to `count` solutions in falling score, each unlike all `known` and earlier ones in `difference` choices.

    Only choices that can be felt at the output count, so that a copy with another idle edge is no candidate.
    """
    cuts = [_apart(programme, solution, difference) for solution in known]
    for _ in range(count):
        solution = programme.best(limits, cuts, ties)
        if solution is None:
            return
        yield solution
        cuts.append(_apart(programme, solution, difference))


def _apart(programme: Programme, solution: Solution, difference: int) -> Cut:
    felt = effective_choices(programme.space, solution.choices)
    return Cut(felt, max(len(felt) - difference, 0))
