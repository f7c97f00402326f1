"""One result of a search under all its budgets: what they share, and the files of each."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.budget.targets import Demands
from pipeline.config import TargetConfig
from pipeline.rundir import write_json
from pipeline.selection.budgets import Outcome, Rules, Sweep, argmax_seeker, best_seeker, select
from pipeline.selection.candidate import Candidate
from pipeline.selection.certification import Measure, OverBudget
from pipeline.selection.chooser import Chooser
from pipeline.selection.records import (
    Circumstances,
    certificate_record,
    genotype_record,
    refusal_record,
    selection_record,
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
        """The three files of a network that fits."""
        options = self.chooser.options(outcome.demands)
        records = {
            "genotype": genotype_record(outcome.chosen),
            "selection": selection_record(outcome, self.argmax_beside(outcome), options, self.circumstances),
            "certificate": certificate_record(outcome, self.circumstances),
        }
        write_files(folder, records)

    def write_refusal(self, folder: Path, budget_ms: float, error: OverBudget) -> None:
        """A certificate that says no, and nothing that could be trained."""
        record = refusal_record(Demands.of(self.limits, budget_ms), error.tried, self.circumstances)
        write_files(folder, {"certificate": record})

    def write_each(self, folder: Path, sweep: Sweep) -> None:
        """A folder per budget."""
        for outcome in sweep.outcomes:
            self.write(folder_of(folder, outcome.demands.budget_ms), outcome)
        for budget_ms, error in sweep.refusals.items():
            self.write_refusal(folder_of(folder, budget_ms), budget_ms, error)


def folder_of(folder: Path, budget_ms: float) -> Path:
    """Where the files of one of several budgets lie."""
    return folder / f"{budget_ms:g}ms"


def write_files(folder: Path, records: dict[str, dict[str, Any]]) -> None:
    """genotype.json, selection.json and certificate.json; those without a record are removed, for they would be stale.

    The certificate comes last: it vouches for the others.
    """
    for name in ("genotype", "selection", "certificate"):
        path = folder / f"{name}.json"
        if name in records:
            write_json(path, records[name])
        else:
            path.unlink(missing_ok=True)
