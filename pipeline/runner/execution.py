"""Running stages: which are up to date, and what a finished one leaves behind as its record."""

import importlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

from pipeline.artifacts.artifact import Artifact
from pipeline.artifacts.certificate import Certificate
from pipeline.artifacts.files import Images
from pipeline.artifacts.latency_table import LatencyTable
from pipeline.artifacts.stage_record import StageRecord
from pipeline.artifacts.trained import Trained
from pipeline.config import Config
from pipeline.console import is_follower, launched_processes, say
from pipeline.errors import Interrupted, UserError
from pipeline.resumable.checkpoint import OtherConfigurationError, hash_state
from pipeline.rundir import budget_folders
from pipeline.runner.artifacts import check_inputs, describe_lack, hash_of, hash_outputs, read_record, require_places
from pipeline.runner.environment import describe_environment
from pipeline.runner.explaining import explained
from pipeline.runner.log import logged
from pipeline.runner.opening import flags_of_first_attempt, remember_flags, render_settings, settings_under_way
from pipeline.runner.redoing import (
    Sessions,
    confirm_redo,
    drop_finished_state,
    endangered_training,
    replaced_export,
    set_aside,
)
from pipeline.stages import STAGES, TRANSFER, Stage, stage_named, stages_of
from pipeline.stages.context import Context
from pipeline.stages.teachers import open_teacher
from pipeline.whole_files import write_json, write_text

Work = Callable[[Context], None]


def run_stage(context: Context, stage: Stage, force: bool = False, yes: bool = False) -> None:
    """Run one stage, unless it is up to date; `force` runs it from the start all the same, `yes` without a question."""
    stages = _with_transfer(context, stage)
    if not stage.shared:
        _require_one_process(context, stage.command)
    if is_follower():
        # else the first process does nothing, and must not be waited for
        if force or any(list(changes_since(context, one)) for one in stages):
            _module(stage).run(context)
        return
    with explained(context.config, stage), context.run.locked():
        _bring_all_up_to_date(context, stages, ask=not (force or yes), force=force)


def _require_one_process(context: Context, command: str) -> None:
    """Refuse a launcher's many where one must work alone: they would disturb each other's clock and files."""
    if launched_processes() > 1:
        names = ", ".join(stage.name for stage in STAGES if stage.shared)
        raise UserError(
            f"only {names} share out their work; run `pipeline {context.run.call(command)}` without torchrun"
        )


def _with_transfer(context: Context, stage: Stage) -> list[Stage]:
    """A stage, after the one that is part of it where a genotype comes from elsewhere."""
    own = stage.name == TRANSFER.part_of and TRANSFER in stages_of(context.config)
    return [TRANSFER, stage] if own else [stage]


def run_audit(context: Context, force: bool = False) -> None:
    """Have retrain learn about the images and show what it found; the training is kept for `pipeline retrain`."""
    if not context.config.autodo.is_on:
        raise UserError("--audit shows what is learned about the images; choose it with --learn weights+labels")
    *before, stage = _with_transfer(context, stage_named("retrain"))
    if is_follower():
        if force or any(list(changes_since(context, one)) for one in (*before, stage)):
            _module(stage).audit(context)
        return
    with explained(context.config, stage), context.run.locked():
        for one in before:
            _bring_up_to_date(context, one, [], force)
        if force or list(changes_since(context, stage)):
            check_inputs(context, stage)
            context.data.pool.images.prepare()
            with logged(context.run), set_aside(context.run.checkpoints(stage.name), force):
                _module(stage).audit(context)
        else:
            say(f"✓ {stage.name}: up to date; what it suspects is in {context.run.suspects}")
        remember_flags(context)


def run_all(context: Context, yes: bool = False) -> None:
    """Every stage in order, without those that are up to date."""
    _require_one_process(context, "run")
    with explained(context.config), context.run.locked():
        if context.config.retrain.teacher:  # refused now, and not after the search
            open_teacher(context, context.device)
        stages = stages_of(context.config)
        _check_learning(context, stages)
        _bring_all_up_to_date(context, stages, ask=not yes, with_images=True)


def preview_stage(context: Context, stage: Stage, force: bool = False) -> None:
    """`--dry-run`: what a stage would take, and whether it would begin, go on, or be refused; writes nothing."""
    with explained(context.config, stage):
        _module(stage).preview(context)
    checkpoints = context.run.checkpoints(stage.name)
    is_under_way = any(checkpoints.rglob("*.pt"))
    checks = is_under_way and not force
    refusal = _interrupted_otherwise(context, stage, Sessions(checkpoints).settings) if checks else ""
    if refusal:
        say(refusal)
        return
    if is_under_way and force:
        say(f"{stage.name} is under way in this run: --force gives up what is saved and begins anew")
    elif is_under_way:
        say(f"{stage.name} is under way in this run: it goes on from what is saved, and takes less")
    say("next: the same command without --dry-run")


def _check_learning(context: Context, stages: Sequence[Stage]) -> None:
    """What a training would refuse of [autodo] is refused before the search, not hours later."""
    training = next((stage for stage in stages if stage.name == "retrain"), None)
    if context.config.autodo.is_on and training is not None and list(changes_since(context, training)):
        _module(training).check_learning(context)


def run_otherwise(context: Context, stage: Stage, work: Work, reason: str) -> None:
    """Make the outputs of a stage in another way than its own, such as from what a kit has measured."""
    _require_one_process(context, stage.command)
    with explained(context.config, stage), context.run.locked():
        say(f"▶ {stage.name}: {reason}")
        _run_locked(context, stage, work)
        remember_flags(context)


def hand_out(context: Context, stage: Stage, work: Work) -> None:
    """Do something with the inputs of a stage that changes nothing in the run, such as writing a kit."""
    _require_one_process(context, stage.command)
    with explained(context.config, stage), context.run.locked():
        check_inputs(context, stage)
        work(context)
        remember_flags(context)


def _bring_all_up_to_date(
    context: Context, stages: Sequence[Stage], ask: bool, force: bool = False, with_images: bool = False
) -> None:
    """Stages in order. The first that must be made again is asked about, with all that follows.

    So nobody waits for a second question, and a no leaves everything as it was.
    """
    for place, stage in enumerate(stages):
        ran = _bring_up_to_date(context, stage, stages[place:] if ask else [], force, with_images)
        ask = ask and not ran
    remember_flags(context)
    context.run.working_config.unlink(missing_ok=True)  # of work that was given up, by settings that were undone


def _bring_up_to_date(
    context: Context, stage: Stage, ask_about: Sequence[Stage], force: bool = False, with_images: bool = False
) -> bool:
    """Whether the stage ran; `ask_about` are the stages that a person is asked about before it does."""
    changes = ["from the start"] if force else list(changes_since(context, stage))
    if not force:
        drop_finished_state(context, stage)
    if changes:
        say(f"▶ {stage.name}: {'; '.join(changes)}")
        if ask_about:
            confirm_redo(context, ask_about, changes)
        is_first_attempt = not context.run.record(stage.name).is_file()
        with flags_of_first_attempt(context) if is_first_attempt else nullcontext():
            _run_locked(context, stage, _module(stage).run, force, with_images)
        remember_flags(context, stage)
    else:
        again = f"`pipeline {context.run.call(stage.command)} --force` runs it again"
        say(f"✓ {stage.name}: up to date (inputs, settings and outputs are unchanged; {again})")
    return bool(changes)


def _module(stage: Stage) -> ModuleType:
    return importlib.import_module(f"pipeline.stages.{stage.name}")


def _run_locked(context: Context, stage: Stage, work: Work, force: bool = False, with_images: bool = False) -> None:
    """Run a stage and record it. Until then nothing of an earlier result is touched but by the stage itself, last.

    Damaged images are found before hours of work; a stage that needs none asks for them only with `with_images`.
    """
    inputs = check_inputs(context, stage)
    require_places(context, stage)
    with_images = with_images or Images in stage.reads or not context.config.data.classes
    if with_images:
        context.data.pool.images.prepare()
    if Trained in stage.writes and context.run.certificate.is_file():
        say(context.read(Certificate).describe())
    replaced = replaced_export(context, [stage])
    if replaced:
        say(f"this replaces {replaced}")
    endangered = endangered_training(context, stage)
    if endangered:
        say(endangered)
    checkpoints = context.run.checkpoints(stage.name)
    with logged(context.run), set_aside(checkpoints, force), settings_under_way(context, checkpoints):
        sessions = Sessions(checkpoints)
        try:
            work(context)
        except Interrupted as error:
            sessions.keep(stage.settings_in(context.config))
            if force:
                raise Interrupted(f"{error} (without --force, which begins anew)") from None
            raise
        except OtherConfigurationError as error:
            raise _named_changes(context, stage, sessions.settings, error) from None
        _record(context, stage, inputs, sessions.seconds, with_images)
    shutil.rmtree(checkpoints, ignore_errors=True)


def _named_changes(
    context: Context, stage: Stage, before: Mapping[str, Any], error: OtherConfigurationError
) -> UserError:
    """The refusal of saved state, with what has changed since it was saved, where that is known."""
    reason = _interrupted_otherwise(context, stage, before)
    return UserError(reason) if reason else error


def _interrupted_otherwise(context: Context, stage: Stage, before: Mapping[str, Any]) -> str:
    """Why a stage cannot go on with what was saved under the settings `before`; nothing where it can."""
    changes = list(_changed_settings(context, stage, before)) if before else []
    if not changes:
        return ""
    return (
        f"{stage.name} was interrupted under other settings ({'; '.join(changes)}): undo the change to go on with what "
        "is saved, use another --run, or give up what is saved with "
        f"`pipeline {context.run.call(stage.command)} --force`"
    )


def _record(context: Context, stage: Stage, inputs: dict[str, str], seconds: float, with_images: bool) -> None:
    """What the run was, and what the stage read and left; each of several budgets has a record of its own."""
    outputs = hash_outputs(context, stage)  # which refuses what is missing, before anything is written
    write_text(context.run.config, render_settings(context))
    write_json(context.run.environment, describe_environment(context))
    if with_images:
        write_json(context.run.splits, context.data.split_record())
    record = StageRecord(
        stage=stage.name,
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=round(seconds, 1),
        settings=stage.settings_in(context.config),
        inputs=inputs,
        outputs=outputs,
        versions={kind.name: kind.version for kind in stage.writes},
        state=hash_state(context.run.checkpoints(stage.name)),
    )
    if Certificate in stage.writes:
        for folder in sorted(budget_folders(context.run.genotype.parent)):
            own = replace(context, run=replace(context.run, budget=folder.name))
            if own.run.certificate.is_file():
                update = {"outputs": hash_outputs(own, stage)}
                record.model_copy(update=update).write(own.run.record(stage.name))
    record.write(context.run.record(stage.name))


def changes_since(context: Context, stage: Stage) -> Iterator[str]:
    """Why the stage must run again: what differs from its record. Nothing, if it is up to date."""
    if not context.run.record(stage.name).is_file():
        if not _is_provided(context, stage):
            yield "not done yet"
        return
    record = read_record(context, stage)
    changes = [*_changed_settings(context, stage, record.settings), *_changed_files(context, stage, record)]
    if changes and record.seconds:
        changes[-1] += f" (took {timedelta(seconds=round(record.seconds))} last time)"
    yield from changes


def _changed_settings(context: Context, stage: Stage, recorded: Mapping[str, Any]) -> Iterator[str]:
    for name, value in stage.settings_in(context.config).items():
        # a record that does not know a setting is older than it, and was made as if it had its default
        section, _, setting = name.partition(".")
        before = recorded.get(name, getattr(getattr(Config(), section), setting))
        if before != value:
            yield f"{name} changed from {before!r} to {value!r}"


def _changed_files(context: Context, stage: Stage, record: StageRecord) -> Iterator[str]:
    for kind in stage.reads:
        now = hash_of(context, kind)
        if now != record.inputs.get(kind.name, now):
            yield f"the {_title(kind)} changed"
    for kind in stage.writes:
        now = hash_of(context, kind)
        if now is None and not kind.optional:
            yield f"its {_title(kind)} {describe_lack(context, kind)}"
        elif now != record.outputs.get(kind.name, now):
            yield f"its {_title(kind)} was altered"
        elif kind.version != record.versions.get(kind.name, 1):
            yield f"its {_title(kind)} is of another version of this program"


def _title(kind: type[Artifact]) -> str:
    return kind.name.replace("_", " ")


def _is_provided(context: Context, stage: Stage) -> bool:
    """A table that knows this run's networks will do, whichever run measured it."""
    return stage.writes == (LatencyTable,) and hash_of(context, LatencyTable) is not None
