"""Before finished work is made again: a question, and nothing thrown away until there is something new."""

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from pipeline.artifacts.alphas import Alphas
from pipeline.artifacts.certificate import Certificate
from pipeline.artifacts.files import DeployedModel
from pipeline.artifacts.latency_table import LatencyTable
from pipeline.artifacts.model_card import ModelCard
from pipeline.artifacts.network import ChosenNetwork
from pipeline.artifacts.stage_record import StageRecord, trained_another
from pipeline.console import ask
from pipeline.errors import UserError
from pipeline.latency.profiling import sweep_stored
from pipeline.resumable.checkpoint import hash_state
from pipeline.runner.artifacts import read_record
from pipeline.stages import Stage
from pipeline.stages.context import Context
from pipeline.stages.tables import check_budget
from pipeline.whole_files import read_json, write_json

_LONG_S = 60.0


def confirm_redo(context: Context, stages: Sequence[Stage], reasons: Sequence[str]) -> None:
    """Ask before the first of these stages is made again, and with it what follows, if that took long last time.

    A stage under way was agreed to when it began. Where there is no terminal the answer is yes.
    """
    first, run = stages[0], context.run
    done = [stage for stage in stages if run.record(stage.name).is_file()]
    if any(run.checkpoints(first.name).glob("*")):
        return
    took_s = sum(read_record(context, stage).seconds for stage in done)
    if took_s < _LONG_S:
        return
    if Alphas in first.writes and LatencyTable in first.reads:  # nobody is asked about hours that come to nothing
        check_budget(context)
    names, took = ", ".join(stage.name for stage in done), timedelta(seconds=round(took_s))
    replaced = replaced_export(context, stages)
    loss = f", and replace {replaced}" if replaced else ""
    if not ask(f"{first.name}: {'; '.join(reasons)}. Make {names} again, which took {took} last time{loss}?"):
        raise UserError(
            f"{first.name} was left as it is: leave out the flag or undo the change that was named, "
            "work in another run with --run, or pass --yes"
        )


def replaced_export(context: Context, stages: Sequence[Stage]) -> str:
    """The export that these stages replace by a network for another budget, in words; nothing if there is none."""
    run = context.run
    if not any(DeployedModel in stage.writes for stage in stages) or not run.model_card.is_file():
        return ""
    try:
        card, coming_ms = ModelCard.read(run.model_card), _coming_budget(context, stages)
    except UserError:
        return ""  # damaged: nothing is lost
    if card.certificate.budget_ms == coming_ms:
        return ""
    victim = f"exports/{run.exports.name} ({card.certificate.budget_ms:g} ms, {card.test_accuracy:.2%})"
    return f"{victim} by a network for {coming_ms:g} ms"


def endangered_training(context: Context, stage: Stage) -> str:
    """What another choice would cost, in words: the training of the network that is chosen now, if there is one."""
    run = context.run
    if Certificate not in stage.writes or not run.record("retrain").is_file() or trained_another(run):
        return ""
    try:
        took = timedelta(seconds=round(StageRecord.read(run.record("retrain")).seconds))
    except UserError:
        return ""
    return (
        f"if another network is chosen now, the trained one ({took} of training) no longer belongs to the choice; "
        "work with another --run to keep both"
    )


def outlived_export(context: Context) -> str:
    """The export that holds another network than the one chosen now, in words; nothing if there is none."""
    run = context.run
    if not run.model_card.is_file():
        return ""
    try:
        card, chosen = ModelCard.read(run.model_card), context.read(ChosenNetwork)
    except UserError:
        return ""
    if chosen.is_of(card.skeleton, card.genotype):
        return ""
    return (
        f"exports/{run.exports.name} still holds the network of an earlier choice ({card.certificate.budget_ms:g} ms, "
        f"{card.test_accuracy:.2%}), until `pipeline {run.call('export')}` replaces it"
    )


def _coming_budget(context: Context, stages: Sequence[Stage]) -> float:
    """The budget of the network that is exported once these stages are done."""
    if not any(Certificate in stage.writes for stage in stages):
        return context.read(Certificate).budget_ms
    wanted, several = context.config.target.budget_ms, context.config.discretize.budgets_ms
    return max(several) if several and wanted not in several else wanted


def drop_finished_state(context: Context, stage: Stage) -> None:
    """Remove the state of a stage that was killed when all was done but that; state of other work is left."""
    checkpoints = context.run.checkpoints(stage.name)
    if LatencyTable in stage.writes:
        sweep_stored(context.run.tables)
    if checkpoints.is_dir() and context.run.record(stage.name).is_file():
        recorded = read_record(context, stage).state
        if recorded is not None and recorded == hash_state(checkpoints):
            shutil.rmtree(checkpoints, ignore_errors=True)


class Sessions:
    """What the interrupted sessions of a stage left beside their state: the seconds they took, and their settings."""

    def __init__(self, checkpoints: Path) -> None:
        self._checkpoints, self._start = checkpoints, time.monotonic()
        record = self._read()
        self._before_s = _number(record.get("seconds"))
        self.settings: Mapping[str, Any] = _mapping(record.get("settings"))

    @property
    def seconds(self) -> float:
        return self._before_s + time.monotonic() - self._start

    def keep(self, settings: Mapping[str, Any]) -> None:
        """For the session that goes on, if anything was saved for it."""
        if any(self._checkpoints.rglob("*.*")):
            write_json(self._path, {"seconds": round(self.seconds, 1), "settings": settings})

    @property
    def _path(self) -> Path:
        return self._checkpoints / "took.json"

    def _read(self) -> Mapping[str, Any]:
        try:
            return _mapping(read_json(self._path)) if self._path.is_file() else {}
        except UserError:
            return {}  # figures for people, which no work may fail for


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


@contextmanager
def set_aside(checkpoints: Path, force: bool) -> Iterator[None]:
    """Start anew without the state of a stage under way, which comes back if the stage ends before it has saved any."""
    aside = checkpoints.with_name(f"{checkpoints.name}.aside")
    _bring_back(aside, checkpoints)
    if force and checkpoints.exists():
        checkpoints.rename(aside)
    try:
        yield
    finally:
        _bring_back(aside, checkpoints)


def _bring_back(aside: Path, checkpoints: Path) -> None:
    if not aside.exists():
        return
    if any(checkpoints.glob("**/*.pt")):
        shutil.rmtree(aside)
    else:
        shutil.rmtree(checkpoints, ignore_errors=True)
        aside.rename(checkpoints)
