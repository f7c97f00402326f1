"""Why nothing fits: the limit that no network keeps, or the two that contradict each other, with the figures."""

from collections.abc import Sequence
from itertools import combinations

from pipeline.budget.integer_programme import Programme, even_scores
from pipeline.budget.limits import Limit
from pipeline.budget.targets import Demands, Target
from pipeline.errors import PromiseBroken
from pipeline.space.cells import Space
from pipeline.space.choices import choices_cost


def check_feasible(space: Space, targets: Sequence[Target], demands: Demands) -> None:
    """Raise PromiseBroken with the reason unless some network of some size is predicted to keep all demands."""
    reasons = [find_conflict(space, target.least_limits(demands)) for target in targets]
    if None not in reasons:
        raise PromiseBroken(
            f"{reasons[0]}; raise the limit, or make the network smaller with [target] cells and channels"
        )


def find_conflict(space: Space, limits: Sequence[Limit]) -> str | None:
    """A sentence that names the limit or the limits that cannot be kept; None when all can be kept together."""
    programme = Programme(space, even_scores(space))
    for limit in limits:
        least = _least(programme, limit, ())
        if not limit.allows(least):
            predicted = " (predicted)" if limit.unit == "ms" else ""
            return (
                f"{limit.name} = {limit.show(limit.at_most)} cannot be kept: "
                f"no network needs less than {limit.show(least)}{predicted}"
            )
    for one, other in combinations(limits, 2):
        if programme.cheapest(one.costs, [one, other]) is None:
            return (
                f"{one.name} and {other.name} contradict each other: with at most {one.show(one.at_most)} "
                f"the least possible is {other.show(_least(programme, other, (one,)))}, "
                f"but {other.name} = {other.show(other.at_most)}"
            )
    if limits and programme.cheapest(limits[0].costs, limits) is None:
        return f"{', '.join(limit.name for limit in limits)} cannot be kept together, though any two of them can"
    return None


def _least(programme: Programme, limit: Limit, others: Sequence[Limit]) -> float:
    """The smallest amount of the limited resource that any network within the other limits needs."""
    chosen = programme.cheapest(limit.costs, others)
    return float("inf") if chosen is None else choices_cost(programme.space, limit.costs, chosen)
