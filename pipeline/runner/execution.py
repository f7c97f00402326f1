"""Running stages: which are up to date, and what a finished one leaves behind as its record."""

import importlib
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from types import ModuleType

from pipeline.config_file import render_config
from pipeline.console import is_follower, say
from pipeline.rundir import read_json, write_json, write_text
from pipeline.runner.artifacts import hash_of, require
from pipeline.runner.environment import describe_environment
from pipeline.stages import STAGES, Stage
from pipeline.stages.context import Context
from pipeline.stages.settings import settings_of

_AFTER_TRANSFER = ("retrain", "export")
_UP_TO_DATE = "up to date (inputs, settings and outputs are unchanged)"


def run_stage(context: Context, stage: Stage, force: bool = False) -> None:
    """Run one stage, unless it is up to date; `force` runs it from the start all the same."""
    if is_follower():
        if force or list(
            changes_since(context, stage)
        ):  # else the first process does nothing, and must not be waited for
            _module(stage).run(context)
        return
    with context.run.locked():
        _adopt_genotype(context, stage)
        if force:
            shutil.rmtree(context.run.checkpoints(stage.name), ignore_errors=True)
        elif not list(changes_since(context, stage)):
            say(f"✓ {stage.name}: {_UP_TO_DATE}; --force runs it again")
            return
        _run_locked(context, stage, with_images="data" in stage.reads or not context.config.data.classes)


def run_all(context: Context) -> None:
    """Every stage in order, without those that are up to date; with a genotype from elsewhere, training and export."""
    stages = [stage for stage in STAGES if not context.config.retrain.genotype or stage.name in _AFTER_TRANSFER]
    with context.run.locked():
        for stage in stages:
            _adopt_genotype(context, stage)
            changes = list(changes_since(context, stage))
            if changes:
                say(f"▶ {stage.name}: {'; '.join(changes)}")
                _run_locked(context, stage, with_images=True)
            else:
                say(f"✓ {stage.name}: {_UP_TO_DATE}")


def _adopt_genotype(context: Context, stage: Stage) -> None:
    """A genotype from elsewhere takes the place of a selected one, with a certificate of its own."""
    if stage.name == "retrain" and context.config.retrain.genotype:
        from pipeline.stages.transfer import adopt_genotype

        adopt_genotype(context)


def _module(stage: Stage) -> ModuleType:
    return importlib.import_module(f"pipeline.stages.{stage.name}")


def _run_locked(context: Context, stage: Stage, with_images: bool) -> None:
    inputs = require(context, stage.reads)
    if with_images:
        context.data.pool.images.prepare()  # damaged ones are found before hours of work, and before anything changes
    context.run.record(stage.name).unlink(missing_ok=True)  # what is being replaced is no longer up to date
    heading = f"The resolved configuration of the run {context.run.name}."
    write_text(context.run.config, render_config(context.config, heading))
    write_json(context.run.environment, describe_environment(context))
    if with_images:
        write_json(context.run.splits, context.data.split_record())
    _module(stage).run(context)
    record = {
        "stage": stage.name,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "settings": settings_of(context, stage),
        "inputs": inputs,
        "outputs": require(context, stage.writes),
    }
    write_json(context.run.record(stage.name), record)
    shutil.rmtree(context.run.checkpoints(stage.name), ignore_errors=True)


def changes_since(context: Context, stage: Stage) -> Iterator[str]:
    """Why the stage must run again: what differs from its record. Nothing, if it is up to date."""
    path = context.run.record(stage.name)
    if not path.is_file():
        if not _is_provided(context, stage):
            yield "not done yet"
        return
    record = read_json(path)
    for name, value in settings_of(context, stage).items():
        before = record["settings"].get(name)
        if before != value:
            yield f"{name} changed from {before!r} to {value!r}"
    for artifact, before in record["inputs"].items():
        if hash_of(context, artifact) != before:
            yield f"the {artifact} changed"
    for artifact, before in record["outputs"].items():
        now = hash_of(context, artifact)
        if now != before:
            yield f"its {artifact.replace('_', ' ')} {'is missing' if now is None else 'was altered'}"


def _is_provided(context: Context, stage: Stage) -> bool:
    """A table that knows this run's networks will do, whichever run measured it."""
    return stage.writes == ("table",) and hash_of(context, "table") is not None
