"""Files that settings of [retrain] name: the teacher's, and the weights to start from."""

from dataclasses import replace
from pathlib import Path

from pipeline.errors import UserError
from pipeline.stages.context import Context
from pipeline.training.teacher_source import TeacherSource

_RUN = "run:"


def teacher_source(context: Context) -> TeacherSource | None:
    """What [retrain] teacher says, if anything."""
    text = context.config.retrain.teacher
    return TeacherSource.parse(text, context.run.project) if text else None


def teacher_base(context: Context) -> Path | None:
    """The file that [retrain] teacher names."""
    source = teacher_source(context)
    return None if source is None else source.file


def teacher_file(context: Context) -> Path | None:
    """The file that retrain learns from: a network of timm may have been taught the classes of the data."""
    source, taught = teacher_source(context), context.run.taught_teacher
    return taught if source is not None and source.architecture and taught.is_file() else teacher_base(context)


def start_file(context: Context) -> Path | None:
    """The file of the weights that [retrain] start names."""
    start, run = context.config.retrain.start, context.run
    if start == "supernet":
        return run.supernet_weights
    if not start.startswith(_RUN):
        return None
    other = replace(run, name=start.removeprefix(_RUN), budget="")
    if other.name == run.name:
        raise UserError(f"[retrain] start = {start!r} names this run itself; name one that was trained on other data")
    return other.weights
