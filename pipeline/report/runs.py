"""`pipeline list`: the runs of a project with their budget, state, accuracy and latency."""

import fcntl
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from pipeline.artifacts.artifact import Typed
from pipeline.artifacts.certificate import Certificate
from pipeline.artifacts.metrics import Metrics
from pipeline.artifacts.model_card import ModelCard
from pipeline.artifacts.stage_record import StageRecord, trained_another
from pipeline.config_file import read_config
from pipeline.console import print_result, say, show
from pipeline.errors import UserError
from pipeline.report.contents import trained_for
from pipeline.resumable.checkpoint import hash_state
from pipeline.rundir import RunDir, budget_folders, budget_name, run_names
from pipeline.whole_files import read_json

_SAVING = ("search", "discretize", "teach", "retrain")  # stages that go on from what they saved
_SAVED = ("*.pt", "measured.jsonl")
_HEADINGS = ("run", "space", "budget", "state", "accuracy", "measured")


def describe_runs(project: Path) -> list[dict[str, Any]]:
    """A record per run; a figure that is not there yet is None, a file that cannot be read makes the state damaged."""
    return [_describe(RunDir(project, name)) for name in run_names(project)]


def _describe(run: RunDir) -> dict[str, Any]:
    damaged: list[str] = []

    def read(kind: type[Typed], path: Path) -> Any:
        try:
            return kind.read(path) if path.exists() else None
        except UserError as error:
            damaged.append(str(error))
            return None

    certificate, metrics = read(Certificate, run.certificate), read(Metrics, run.metrics)
    card = read(ModelCard, run.model_card)
    told = card or certificate
    return {
        "run": run.name,
        **_settings(run),
        "state": _state(run, bool(certificate), bool(metrics), bool(card), bool(damaged)),
        "under_way": _under_way(run, _SAVING),
        "outdated": trained_another(run),
        **({} if told is None else {"budget_ms": told.budget_ms}),
        "percentile": None if told is None else told.percentile,
        "test_accuracy": None if metrics is None else metrics.test_accuracy,
        "measured_ms": None if told is None or told.measured_ms is None else told.measured_ms.at(told.percentile),
        "expected_ms": None if told is None or told.expected_ms is None else told.expected_ms.at(told.percentile),
        "noise_floor": None if told is None else told.noise_floor,
        "other_budgets": [] if told is None else list(_other_budgets(run, told.budget_ms, read)),
        "running": _is_held(run),
        "report": str(run.report.relative_to(run.project)) if run.report.is_file() else None,
        "reports": sorted(str(page.relative_to(run.project)) for page in run.root.glob("report*.html")),
        "damaged": damaged,
    }


def _other_budgets(run: RunDir, own_ms: float, read: Callable[[type[Any], Path], Any]) -> Iterator[dict[str, Any]]:
    """The networks that were chosen for other budgets, in rising order, with the latency of their files if exported."""
    found = [read(Certificate, folder / run.certificate.name) for folder in budget_folders(run.genotype.parent)]
    others = [one for one in found if one is not None and one.budget_ms != own_ms]
    for one in sorted(others, key=lambda one: one.budget_ms):
        trained = trained_for(run, one.budget_ms)
        metrics = None if trained is None else read(Metrics, trained.metrics)
        card = None if trained is None else read(ModelCard, trained.model_card)
        told = card or one
        yield {
            "budget_ms": one.budget_ms,
            "state": "certified" if trained is None else "exported" if card else "trained",
            "under_way": _under_way(replace(run, budget=budget_name(one.budget_ms)), ("retrain",)),
            "test_accuracy": None if metrics is None else metrics.test_accuracy,
            "measured_ms": None if told.measured_ms is None else told.measured_ms.at(told.percentile),
            "percentile": told.percentile,
        }


def _settings(run: RunDir) -> dict[str, Any]:
    """What the run was asked, as far as it was recorded; by flags of its last command too, which may be under way."""
    try:
        target = read_config(run.latest_config(), read_json(run.flags) if run.flags.is_file() else {}).target
    except UserError:
        return {"space": None, "budget_ms": None}
    return {"space": target.space, "budget_ms": target.budget_ms}


def _state(run: RunDir, certified: bool, trained: bool, exported: bool, damaged: bool) -> str:
    if damaged:
        return "damaged"
    reached = {"exported": exported, "trained": trained, "certified": certified, "searched": run.alphas.is_file()}
    return next((state for state, is_so in reached.items() if is_so), "started")


def _under_way(run: RunDir, stages: Iterable[str]) -> str | None:
    """The first of these stages that has begun and saved something to go on from."""
    return next((stage for stage in stages if _has_saved(run, stage)), None)


def _has_saved(run: RunDir, stage: str) -> bool:
    checkpoints = run.checkpoints(stage)
    try:
        saved = any(path.is_file() for pattern in _SAVED for path in checkpoints.rglob(pattern))
        return saved and hash_state(checkpoints) != _finished_state(run, stage)
    except FileNotFoundError:  # a file that its stage, at work now, has just replaced
        return True


def _finished_state(run: RunDir, stage: str) -> str | None:
    """That of a stage which was done, and killed before its state had gone."""
    try:
        return StageRecord.read(run.record(stage)).state if run.record(stage).is_file() else None
    except UserError:
        return None


def _is_held(run: RunDir) -> bool:
    """Whether another process is at work on it."""
    lock = run.root / ".lock"
    if not lock.is_file():
        return False
    with lock.open("r") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _row(record: Mapping[str, Any], running: bool) -> list[str]:
    """Budget, state, accuracy and latency."""
    budget_ms, accuracy, ms = record["budget_ms"], record["test_accuracy"], record["measured_ms"]
    return [
        "–" if budget_ms is None else f"{budget_ms:g} ms",
        record["state"] + f", {record['under_way']} interrupted" * bool(record["under_way"] and not running),
        "–" if accuracy is None else f"{accuracy:.2%}",
        "–" if ms is None else f"{ms:.3g} ms (p{record['percentile']})",
    ]


def print_runs(records: list[dict[str, Any]], as_json: bool) -> None:
    """One JSON object on stdout, or a table."""
    if as_json:
        print_result({"runs": records}, as_json)
        return
    if not records:
        say("there are no runs yet; `pipeline run` starts one")
        return
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in _HEADINGS:
        table.add_column(heading, overflow="fold", no_wrap=heading not in ("run", "state"))
    for record in records:
        older = ", an older choice" * record["outdated"]
        running = record["running"]
        state = f"{record['state']}{older}{', running' * running}"
        table.add_row(record["run"], record["space"] or "–", *_row({**record, "state": state}, running))
        for other in record["other_budgets"]:
            table.add_row("", "", *_row(other, running))
    show(table)
    pages = [page for record in records for page in record["reports"]]
    if pages:
        say(f"pages: {', '.join(pages)}")
    for record in records:
        for sentence in record["damaged"]:
            say(sentence)
