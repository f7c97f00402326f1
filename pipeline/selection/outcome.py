"""One budget from scores to a certified network: choose, measure, and compare candidates if asked.

The highest sum of scores that is measured to fit comes first; from there a guide may lead to networks that are worth
more as a whole. Candidates to compare are those that come next. They are measured in the order in which the comparison
places them until one fits: the best that keeps the budget, for few measurements.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pipeline.budget.feasibility import find_conflict
from pipeline.budget.integer_programme import Solution, best_candidates
from pipeline.budget.limits import Limit
from pipeline.budget.targets import Demands
from pipeline.errors import PromiseBroken
from pipeline.latency.measured import Measured
from pipeline.selection.candidate import Pick
from pipeline.selection.certification import Certified, Measure, OverBudget, Round, Seeker, certify, try_out
from pipeline.selection.chooser import Chooser
from pipeline.selection.refinement import Guide, Improver
from pipeline.space.cells import Space
from pipeline.space.choices import Choices, effective_choices
from pipeline.space.genotype import Genotype
from pipeline.space.skeleton import Skeleton


class Judgement(NamedTuple):
    """What comparing on data said of one candidate; place 0 is the best."""

    loss: float
    place: int
    steps: int


Judge = Callable[[Sequence[Pick]], list[Judgement]]


class Rules(NamedTuple):
    """How a selection proceeds. `guide` leads to networks beyond the highest sums of scores, `judge` compares.

    Without a judge the first certified network is taken; with one, the best of `candidates`.
    """

    max_rounds: int
    max_noise_floor: float
    candidates: int = 1
    difference: int = 1
    judge: Judge | None = None
    guide: Guide | None = None


class Candidate(NamedTuple):
    """A network that was looked at, and what became of it."""

    pick: Pick
    measured: Measured | None
    fate: str
    judgement: Judgement | None = None


class Outcome(NamedTuple):
    """What was selected for the demands: the last word on a budget."""

    demands: Demands
    chosen: Round
    rounds: tuple[Round, ...]
    candidates: tuple[Candidate, ...]


def best_seeker(chooser: Chooser, demands: Demands) -> Seeker:
    """The highest score within the demands."""
    return Seeker(
        lambda factor, failed: chooser.choose(demands, factor, failed),
        lambda: chooser.fastest(demands),
    )


def argmax_seeker(chooser: Chooser, demands: Demands, argmax: Genotype) -> Seeker:
    """The classic cell, in the largest skeleton that holds it."""
    picks = [chooser.pick_genotype(target, argmax) for target in chooser.targets]

    def keeps(pick: Pick, limits: Sequence[Limit]) -> bool:
        return all(limit.allows(limit.costs.of(pick.genotype)) for limit in limits)

    def choose(factor: float, failed: Sequence[Pick]) -> Pick | None:
        known = {pick.identity for pick in failed}
        fitting = [p for p in picks if p.identity not in known and keeps(p, p.target.limits(demands, factor))]
        return max(fitting, key=lambda pick: pick.macs, default=None)

    def smallest() -> Pick | None:
        within = [p for p in picks if keeps(p, p.target.limits(demands)[1:])]
        return min(within, key=lambda pick: pick.predicted.ms, default=None)

    return Seeker(choose, smallest)


def select(chooser: Chooser, seeker: Seeker, demands: Demands, measure: Measure, rules: Rules) -> Outcome:
    """The network for the demands, measured to keep them."""
    try:
        certified = certify(seeker, demands, measure, rules.max_rounds, rules.max_noise_floor, fills=not rules.guide)
    except OverBudget as error:
        raise _with_reason(error, chooser, demands) from None
    improver = Improver(chooser, rules.guide, demands, certified) if rules.guide else None
    if improver:
        certified = improver.improve(measure, rules.max_rounds, rules.max_noise_floor)
    field = _enter(chooser, certified, demands, rules, improver) if rules.judge else []
    if rules.judge is None or len(field) < 2:
        return Outcome(demands, certified.round, certified.rounds, tuple(_tried(certified)))
    judgements = rules.judge(field)
    by_place = sorted(range(len(field)), key=lambda i: judgements[i].place)
    winner, measured = _first_that_fits([field[i] for i in by_place], certified, demands, measure, rules)
    candidates = [c for c in _tried(certified) if c.pick.identity != certified.round.pick.identity]
    for pick, judgement in zip(field, judgements, strict=True):
        done = measured.get(pick.identity)
        fate = f"place {judgement.place + 1} on validation data"
        if done is not None and not done.fits:
            fate += ", over budget"
        fate = "chosen" if done is winner else fate
        candidates.append(Candidate(pick, done.measured if done else None, fate, judgement))
    return Outcome(demands, winner, certified.rounds, tuple(candidates))


def _with_reason(error: OverBudget, chooser: Chooser, demands: Demands) -> OverBudget:
    """The error with the limits that stand in each other's way, in the size that comes nearest."""
    nearest = error.rounds[-1].pick.target if error.rounds else chooser.targets[0]
    reason = find_conflict(chooser.space, nearest.limits(demands))
    return error if reason is None else OverBudget(f"{error}\n  {reason}", error.rounds)


def _tried(certified: Certified) -> list[Candidate]:
    fates = {True: "fits; a better one fits too", False: "over budget"}
    return [
        Candidate(done.pick, done.measured, "chosen" if done is certified.round else fates[done.fits])
        for done in certified.rounds
    ]


def _enter(
    chooser: Chooser, certified: Certified, demands: Demands, rules: Rules, improver: Improver | None
) -> list[Pick]:
    """The certified network first, then others of its skeleton that differ from each other."""
    first = certified.round.pick
    if improver is not None:
        return _apart(chooser.space, [first, *improver.field()], rules.candidates, rules.difference)
    limits = first.target.limits(demands, certified.factor)
    known = Solution(first.choices, first.score, first.gap, first.seconds)
    others = best_candidates(
        chooser.programme, limits, rules.candidates - 1, rules.difference, first.target.latency, [known]
    )
    return [first, *(chooser.pick(first.target, solution) for solution in others)]


def _apart(space: Space, ordered: Sequence[Pick], count: int, difference: int) -> list[Pick]:
    """The first networks that differ from all before them in enough choices that can be felt."""
    taken: list[Pick] = []
    for pick in ordered:
        felt = effective_choices(space, pick.choices)
        if all(len(felt - effective_choices(space, other.choices)) >= difference for other in taken):
            taken.append(pick)
        if len(taken) == count:
            break
    return taken


def _first_that_fits(
    field: Sequence[Pick], certified: Certified, demands: Demands, measure: Measure, rules: Rules
) -> tuple[Round, dict[tuple[Skeleton, Choices], Round]]:
    """The first of the field that is measured to keep the budget (the certified one is), and all that was measured."""
    measured = {certified.round.pick.identity: certified.round}
    for pick in field:
        if pick.identity not in measured:
            limit_ms = pick.target.limits(demands, certified.factor)[0].at_most
            try:
                measured[pick.identity] = try_out(pick, limit_ms, demands, measure, rules.max_noise_floor)
            except PromiseBroken:
                continue  # there is a certified network; a rival that cannot be measured is no rival
        if measured[pick.identity].fits:
            return measured[pick.identity], measured
    return certified.round, measured
