"""One result of a search under all its budgets: what they share, and the files of each."""

from dataclasses import dataclass
from pathlib import Path

from pipeline.artifacts.certificate import Certificate, Refusal
from pipeline.artifacts.network import ChosenNetwork
from pipeline.artifacts.selection import Selection
from pipeline.budget.targets import Demands
from pipeline.config import TargetConfig
from pipeline.selection.budgets import Outcome, Rules, Sweep, argmax_seeker, best_seeker, select
from pipeline.selection.candidate import Candidate
from pipeline.selection.certification import Measure
from pipeline.selection.chooser import Chooser
from pipeline.selection.records import (
    Circumstances,
    certify_outcome,
    describe_network,
    describe_selection,
    refuse_budget,
)
from pipeline.space.genotype import Genotype


@dataclass(frozen=True)
class Job:
    """`chooser` holds the scores and sizes, `argmax` is the classic cell, `limits` the [target] of the file."""

    chooser: Chooser
    argmax: Genotype
    measure: Measure
    rules: Rules
    limits: TargetConfig
    circumstances: Circumstances

    def select(self, budget_ms: float) -> Outcome:
        """The certified network for a budget; OverBudget when there is none."""
        demands = Demands.of(self.limits, budget_ms)
        if self.circumstances.rule == "argmax":
            seeker = argmax_seeker(self.chooser, demands, self.argmax)
            return select(self.chooser, seeker, demands, self.measure, self.rules._replace(evolution=None))
        return select(self.chooser, best_seeker(self.chooser, demands), demands, self.measure, self.rules)

    def argmax_beside(self, outcome: Outcome) -> Candidate:
        """The classic cell in the skeleton that was chosen."""
        return self.chooser.candidate_of(outcome.chosen.target, self.argmax)

    def write(self, folder: Path, outcome: Outcome) -> None:
        """The three files of a network that fits; the certificate comes last, for it vouches for the others."""
        options = self.chooser.options(outcome.demands)
        for document in (
            describe_network(outcome.chosen),
            describe_selection(outcome, self.argmax_beside(outcome), options, self.circumstances),
            certify_outcome(outcome, self.circumstances),
        ):
            document.write(folder / f"{document.name}.json")

    def write_each(self, folder: Path, sweep: Sweep) -> None:
        """A folder per budget, in place of what it held; one that cannot be kept leaves nothing to be trained."""
        for outcome in sweep.outcomes:
            self.write(_emptied(folder_of(folder, outcome.demands.budget_ms)), outcome)
        for budget_ms, error in sweep.refusals.items():
            refusal = refuse_budget(Demands.of(self.limits, budget_ms), error.tried, self.circumstances)
            refusal.write(_emptied(folder_of(folder, budget_ms)) / f"{refusal.name}.json")


def _emptied(folder: Path) -> Path:
    for kind in (ChosenNetwork, Selection, Certificate, Refusal):
        (folder / f"{kind.name}.json").unlink(missing_ok=True)
    return folder


def folder_of(folder: Path, budget_ms: float) -> Path:
    """Where the files of one of several budgets lie."""
    return folder / f"{budget_ms:g}ms"
