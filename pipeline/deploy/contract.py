"""The contract of an export: clauses as data, each checked on the finished file, with the figures it was judged by."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import onnx

from pipeline.artifacts.trained import Trained
from pipeline.deploy.deployed import Deployed
from pipeline.deploy.evaluation import Comparison, Images, compare
from pipeline.deploy.graph import read_checked
from pipeline.errors import PipelineError, PromiseBroken
from pipeline.latency.budget_rule import Measured
from pipeline.latency.target import measure_quietly

# files, timed in turns so that they can be compared -> one result each
Measure = Callable[[Sequence[Path]], list[Measured]]


class Budget(NamedTuple):
    """A latency that a percentile must not exceed."""

    budget_ms: float
    percentile: int


@dataclass(frozen=True)
class Limits:
    """What was promised; 0 means no limit."""

    budgets: tuple[Budget, ...]
    max_noise_floor: float
    max_macs: int
    max_params: int
    max_file_mb: float
    tolerance: float

    @property
    def percentiles(self) -> list[int]:
        return [budget.percentile for budget in self.budgets]


@dataclass(frozen=True)
class Export:
    """A folder that is about to be handed over, and all that it is held against."""

    folder: Path
    trained: Trained
    deployed: Deployed
    labels: tuple[str, ...]
    test: Images
    test_accuracy: float
    limits: Limits
    measure: Measure

    @property
    def model_path(self) -> Path:
        return self.folder / "model.onnx"

    @cached_property
    def model(self) -> onnx.ModelProto:
        return read_checked(self.model_path)

    @cached_property
    def comparison(self) -> Comparison:
        return compare(self.trained, self.model_path, self.test, self.limits.tolerance)

    @cached_property
    def measured(self) -> Measured:
        """The latency of the file; measured again while the machine is noisier than allowed.

        One that seems over a budget is measured a second time, and what is faster at the percentiles that were promised
        counts: what disturbs a call only makes it slower, and a promise is not called broken for that.
        """
        measured, budgets = self._measure_quietly(), self.limits.budgets
        if not all(measured.keeps(*budget) for budget in budgets):
            again = self._measure_quietly()
            measured = min(measured, again, key=lambda one: max(one.at(q) / budget_ms for budget_ms, q in budgets))
        return measured

    def _measure_quietly(self) -> Measured:
        limits = self.limits
        return measure_quietly(lambda: self.measure([self.model_path])[0], limits.percentiles, limits.max_noise_floor)


class Finding(NamedTuple):
    """Whether a clause holds, and why one may believe it."""

    passed: bool
    figures: Mapping[str, Any]
    advice: str = ""
    """What to do where it does not hold."""
    words: str = ""
    """The figures as a sentence, where there are so many that nobody reads them."""


class Clause(NamedTuple):
    """One promise: what it says, and how it is checked."""

    name: str
    promise: str
    check: Callable[[Export], Finding]


class Verdict(NamedTuple):
    """A clause after its check."""

    clause: Clause
    finding: Finding

    def record(self) -> dict[str, Any]:
        return {
            "clause": self.clause.name,
            "promise": self.clause.promise,
            "passed": self.finding.passed,
            "figures": dict(self.finding.figures),
        }


def check_contract(export: Export, clauses: tuple[Clause, ...]) -> list[Verdict]:
    """All verdicts. Raises PromiseBroken, naming every clause that does not hold with its figures."""
    verdicts = list(_judge(export, clauses))
    broken = [verdict for verdict in verdicts if not verdict.finding.passed]
    if broken:
        raise PromiseBroken(
            "\n  ".join(["the export does not keep its contract, so nothing was replaced:", *map(_describe, broken)])
        )
    return verdicts


def _judge(export: Export, clauses: tuple[Clause, ...]) -> Iterator[Verdict]:
    for clause in clauses:
        try:
            finding = clause.check(export)
        except (PipelineError, MemoryError):
            raise
        except Exception as error:  # a promise that cannot be checked is not kept
            finding = Finding(False, {"error": _first_line(error)})
        yield Verdict(clause, finding)
        if not finding.passed and clause is clauses[0]:
            return  # the file itself is unsound: everything else would fail for the same reason


def _describe(verdict: Verdict) -> str:
    finding = verdict.finding
    figures = ", ".join(f"{name} {_show(value)}" for name, value in finding.figures.items())
    advice = f"; {finding.advice}" if finding.advice else ""
    return f"{verdict.clause.name} ({verdict.clause.promise}): {finding.words or figures}{advice}"


def _show(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
