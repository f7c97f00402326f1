"""One result of a search under all its budgets: what they share, and the files of each."""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline.artifacts.certificate import Certificate, Refusal
from pipeline.artifacts.network import ChosenNetwork
from pipeline.artifacts.selection import Selection
from pipeline.budget.targets import Demands
from pipeline.config import TargetConfig
from pipeline.rundir import budget_folders, budget_name
from pipeline.selection.budgets import Outcome, Rules, Sweep, argmax_seeker, best_seeker, select
from pipeline.selection.candidate import Candidate
from pipeline.selection.certification import Measure, Seeker
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
        rules = self.rules._replace(evolution=None) if self.circumstances.rule == "argmax" else self.rules
        return select(self.chooser, self.seeker(demands), demands, self.measure, rules)

    def seeker(self, demands: Demands) -> Seeker:
        """How the rule finds networks."""
        if self.circumstances.rule == "argmax":
            return argmax_seeker(self.chooser, demands, self.argmax)
        return best_seeker(self.chooser, demands)

    def argmax_beside(self, outcome: Outcome) -> Candidate:
        """The classic cell in the skeleton that was chosen."""
        found, evolution = self.chooser.candidate_of(outcome.chosen.target, self.argmax), self.rules.evolution
        return found if evolution is None else replace(found, judged=evolution.score(found.choices))

    def write(self, folder: Path, outcome: Outcome) -> None:
        """The three files of a network that fits; the certificate comes last, for it vouches for the others."""
        options = self.chooser.options(outcome.demands)
        for document in (
            describe_network(outcome.chosen),
            describe_selection(outcome, self.argmax_beside(outcome), options, self.circumstances),
            certify_outcome(outcome, self.circumstances),
        ):
            document.write(folder / f"{document.name}.json")

    def write_all(self, folder: Path, sweep: Sweep, outcome: Outcome) -> None:
        """The files of the network to be trained and, with several budgets, a folder for each.

        A budget that cannot be kept leaves nothing to be trained; what belongs to no budget asked now goes, last.
        """
        several = len(sweep.outcomes) + len(sweep.refusals) > 1
        if several:
            for one in sweep.outcomes:
                self.write(_emptied(folder_of(folder, one.demands.budget_ms)), one)
            for budget_ms, error in sweep.refusals.items():
                refusal = refuse_budget(Demands.of(self.limits, budget_ms), error.tried, self.circumstances)
                refusal.write(_emptied(folder_of(folder, budget_ms)) / f"{refusal.name}.json")
        self.write(folder, outcome)
        asked = [one.demands.budget_ms for one in sweep.outcomes] + list(sweep.refusals)
        kept = {folder_of(folder, budget_ms) for budget_ms in asked} if several else set()
        for stale in budget_folders(folder) - kept:
            shutil.rmtree(stale)


def _emptied(folder: Path) -> Path:
    for kind in (ChosenNetwork, Selection, Certificate, Refusal):
        (folder / f"{kind.name}.json").unlink(missing_ok=True)
    return folder


def folder_of(folder: Path, budget_ms: float) -> Path:
    """Where the files of one of several budgets lie."""
    return folder / budget_name(budget_ms)
