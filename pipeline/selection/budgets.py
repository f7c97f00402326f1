"""From scores to certified networks: one budget, or several from one search.

The highest sum of scores that is measured to fit comes first; from there a refinement may lead to networks whose score
as a whole is higher.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from pipeline.artifacts.selection import CHOSEN, OUTDONE, OVER, TIGHT
from pipeline.budget.feasibility import find_conflict
from pipeline.budget.limits import Limit
from pipeline.budget.targets import Demands
from pipeline.errors import PromiseBroken, UserError
from pipeline.selection.candidate import Candidate
from pipeline.selection.certification import Certified, Measure, OverBudget, Seeker, certify
from pipeline.selection.chooser import Chooser
from pipeline.selection.evolution import Evolution
from pipeline.selection.refinement import Refinement
from pipeline.space.choices import Choices
from pipeline.space.genotype import Genotype


class Rules(NamedTuple):
    """How a selection proceeds. `evolution` leads to networks beyond the highest sums of scores, and those `starts`."""

    max_rounds: int
    max_noise_floor: float
    evolution: Evolution | None = None
    starts: tuple[Choices, ...] = ()


class Outcome(NamedTuple):
    """What was selected for the demands, and every network that was measured, each with its verdict."""

    demands: Demands
    chosen: Candidate
    tried: tuple[Candidate, ...]


class Sweep(NamedTuple):
    """What became of every budget, in rising order."""

    outcomes: tuple[Outcome, ...]
    refusals: dict[float, OverBudget]


def best_seeker(chooser: Chooser, demands: Demands) -> Seeker:
    """The highest score within the demands."""
    return Seeker(
        lambda factor, failed: chooser.choose(demands, factor, failed),
        lambda: chooser.fastest(demands),
    )


def argmax_seeker(chooser: Chooser, demands: Demands, argmax: Genotype) -> Seeker:
    """The classic cell, in the largest skeleton that holds it."""
    sizes = [chooser.candidate_of(target, argmax) for target in chooser.targets]

    def keeps(one: Candidate, limits: Sequence[Limit]) -> bool:
        return all(limit.allows(limit.costs.of(one.genotype)) for limit in limits)

    def choose(factor: float, failed: Sequence[Candidate]) -> Candidate | None:
        known = {one.identity for one in failed}
        fitting = [s for s in sizes if s.identity not in known and keeps(s, s.target.limits(demands, factor))]
        return max(fitting, key=lambda one: one.macs, default=None)

    def smallest() -> Candidate | None:
        within = [size for size in sizes if keeps(size, size.target.limits(demands)[1:])]
        return min(within, key=lambda one: one.predicted.ms, default=None)

    return Seeker(choose, smallest)


def select(chooser: Chooser, seeker: Seeker, demands: Demands, measure: Measure, rules: Rules) -> Outcome:
    """The network for the demands, measured to keep them."""
    refines = rules.evolution is not None
    try:
        certified = certify(seeker, demands, measure, rules.max_rounds, rules.max_noise_floor, fills=not refines)
    except OverBudget as error:
        raise _with_reason(error, chooser, demands) from None
    if rules.evolution is not None:
        refinement = Refinement(chooser, rules.evolution, demands, certified, rules.starts)
        certified = refinement.refine(measure, rules.max_rounds, rules.max_noise_floor)
    return conclude(demands, certified)


def conclude(demands: Demands, certified: Certified) -> Outcome:
    """What was certified, with the verdict on every network."""
    tried = tuple(_with_verdict(one, certified, demands) for one in certified.tried)
    return Outcome(demands, next(one for one in tried if one.verdict == CHOSEN), tried)


def _with_verdict(one: Candidate, certified: Certified, demands: Demands) -> Candidate:
    if one is certified.best:
        return replace(one, verdict=CHOSEN)
    if not one.fits:
        return replace(one, verdict=OVER)
    spares = one.timing.spares(demands.budget_ms, demands.percentile)
    return replace(one, verdict=OUTDONE if spares else TIGHT)


def _with_reason(error: OverBudget, chooser: Chooser, demands: Demands) -> OverBudget:
    """The error with the limits that stand in each other's way, in the size that comes nearest."""
    nearest = error.tried[-1].target if error.tried else chooser.targets[0]
    reason = find_conflict(chooser.space, nearest.least_limits(demands))
    return error if reason is None else OverBudget(f"{error}\n  {reason}", error.tried)


def order_budgets(budgets_ms: Sequence[float], note: Callable[[str], None]) -> list[float]:
    """The budgets in rising order; the same one twice is refused."""
    ordered = sorted(budgets_ms)
    twice = [one for one, other in pairwise(ordered) if one == other]
    if twice:
        raise UserError(f"[discretize] budgets_ms names {twice[0]:g} ms twice")
    if ordered != list(budgets_ms):
        note(f"budgets are taken in rising order: {', '.join(f'{budget:g}' for budget in ordered)} ms")
    return ordered


def sweep_budgets(budgets_ms: Sequence[float], select_one: Callable[[float], Outcome]) -> Sweep:
    """Every budget in turn; one that cannot be kept does not stop the others."""
    outcomes, refusals = [], {}
    for budget_ms in budgets_ms:
        try:
            outcomes.append(select_one(budget_ms))
        except OverBudget as error:
            refusals[budget_ms] = error
    return Sweep(tuple(outcomes), refusals)


def pick_outcome(sweep: Sweep, wanted_ms: float) -> Outcome:
    """The one to be trained: that of the wanted budget if it was among them, otherwise of the largest that fits."""
    if wanted_ms in sweep.refusals:
        raise sweep.refusals[wanted_ms]
    if not sweep.outcomes:
        raise PromiseBroken("\n".join(str(error) for error in sweep.refusals.values()))
    exact = [outcome for outcome in sweep.outcomes if outcome.demands.budget_ms == wanted_ms]
    return exact[0] if exact else max(sweep.outcomes, key=lambda outcome: outcome.demands.budget_ms)
