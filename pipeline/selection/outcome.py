"""One budget from scores to a certified network: choose, measure, and compare candidates on data if asked."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pipeline.errors import PromiseBroken
from pipeline.latency.measured import Measured
from pipeline.selection.candidates import best_candidates
from pipeline.selection.certificate import Certified, Measure, OverBudget, Round, Seeker, certify, time_pick
from pipeline.selection.chooser import Chooser
from pipeline.selection.feasibility import find_conflict
from pipeline.selection.limits import Limit
from pipeline.selection.milp import Solution
from pipeline.selection.targets import Demands, Pick
from pipeline.space.genotype import Genotype


class Judgement(NamedTuple):
    """What comparing on data said of one candidate; place 0 is the best."""

    loss: float
    place: int
    steps: int


Judge = Callable[[Sequence[Pick]], list[Judgement]]


class Rules(NamedTuple):
    """How a selection proceeds. `judge` compares `candidates` networks; None takes the highest score."""

    max_rounds: int
    max_noise_floor: float
    candidates: int = 1
    difference: int = 1
    judge: Judge | None = None


class Candidate(NamedTuple):
    """A network that was looked at, and what became of it."""

    pick: Pick
    measured: Measured
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
        certified = certify(seeker, demands, measure, rules.max_rounds, rules.max_noise_floor)
    except OverBudget as error:
        raise _with_reason(error, chooser, demands) from None
    if rules.judge is None:
        return Outcome(demands, certified.round, certified.rounds, tuple(_tried(certified)))
    rivals = _certified_rivals(chooser, certified, demands, measure, rules)
    judgements = rules.judge([rival.pick for rival in rivals if rival.fits])
    entered = [rival for rival in rivals if rival.fits]
    winner = entered[min(range(len(entered)), key=lambda i: judgements[i].place)]
    candidates = [c for c in _tried(certified) if c.pick.identity != certified.round.pick.identity]
    candidates += [_judged(rival, judgement, winner) for rival, judgement in zip(entered, judgements, strict=True)]
    candidates += [Candidate(r.pick, r.measured, "over budget") for r in rivals if not r.fits]
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


def _judged(rival: Round, judgement: Judgement, winner: Round) -> Candidate:
    fate = "chosen" if rival is winner else f"place {judgement.place + 1} on validation data"
    return Candidate(rival.pick, rival.measured, fate, judgement)


def _certified_rivals(
    chooser: Chooser, certified: Certified, demands: Demands, measure: Measure, rules: Rules
) -> list[Round]:
    """The certified network first, then others of its skeleton that differ, all measured."""
    first = certified.round.pick
    limits = first.target.limits(demands, certified.factor)
    known = Solution(first.choices, first.score, first.gap, first.seconds)
    others = best_candidates(
        chooser.programme, limits, rules.candidates - 1, rules.difference, first.target.latency, [known]
    )
    rounds = [certified.round]
    for solution in others:
        pick = chooser.pick(first.target, solution)
        try:
            measured = time_pick(measure, pick, demands, rules.max_noise_floor)
        except PromiseBroken:
            continue  # the first one is certified; a rival that cannot be measured is no rival
        fits = measured.at(demands.percentile) <= demands.budget_ms
        rounds.append(Round(limits[0].at_most, pick, pick.predicted.ms, measured, fits))
    return rounds
