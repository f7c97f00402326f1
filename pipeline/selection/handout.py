"""Networks handed out to a target that is elsewhere, and the choice among them by what it measured.

Predictions err by some percent, so for every budget there go out a network that is a little over it by prediction, the
one that prediction takes, ever faster ones, and the fastest of all: one trip usually suffices.
"""

from collections.abc import Mapping, Sequence

from pipeline.budget.targets import Demands
from pipeline.latency.budget_rule import Measured
from pipeline.selection.budgets import Outcome, conclude
from pipeline.selection.candidate import Candidate
from pipeline.selection.certification import Seeker, certify
from pipeline.selection.job import Job
from pipeline.space.genotype import Genotype
from pipeline.space.skeleton import Skeleton

_FACTORS = (1.0, 0.95, 0.9, 0.8)  # on the predicted limit
_LOOSER = 1.08


def candidates_for(job: Job, budget_ms: float) -> list[Candidate]:
    """The networks to be timed for a budget, best first; OverBudget when none keeps it by prediction."""
    chosen, demands = job.select(budget_ms).chosen, Demands.of(job.limits, budget_ms)
    seeker = job.seeker(demands)
    looser, *tighter = (seeker.choose(factor, ()) for factor in (_LOOSER, *_FACTORS))
    found = [one for one in (looser, chosen, *tighter, seeker.fastest()) if one is not None]
    unique = list({one.identity: one for one in found}.values())
    evolution = job.rules.evolution
    return unique if evolution is None else sorted(unique, key=lambda one: -evolution.score(one.choices))


def choose_measured(
    job: Job, budget_ms: float, handed_out: Sequence[Candidate], measured: Mapping[tuple[Skeleton, str], Measured]
) -> Outcome:
    """The first of the networks handed out that the target measured to keep the budget; OverBudget when none does."""
    demands = Demands.of(job.limits, budget_ms)

    def next_best(_: float, failed: Sequence[Candidate]) -> Candidate | None:
        known = {one.identity for one in failed}
        return next((one for one in handed_out if one.identity not in known), None)

    def look_up(skeleton: Skeleton, genotype: Genotype) -> Measured:
        return measured[skeleton, str(genotype.record())]

    seeker = Seeker(next_best, lambda: None)
    certified = certify(seeker, demands, look_up, len(handed_out), job.rules.max_noise_floor, fills=False)
    return conclude(demands, certified)
