"""Before finished work is made again: a question, and nothing thrown away until there is something new."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from pipeline.console import ask
from pipeline.errors import UserError
from pipeline.runner.artifacts import read_record
from pipeline.stages import Stage
from pipeline.stages.context import Context

_LONG_S = 60.0


def confirm_redo(context: Context, stages: Sequence[Stage], reasons: Sequence[str]) -> None:
    """Ask before the first of these stages is made again, and with it what follows, if that took long last time.

    A stage under way was agreed to when it began. Where there is no terminal the answer is yes.
    """
    first, run = stages[0], context.run
    done = [stage for stage in stages if run.record(stage.name).is_file()]
    if first not in done or any(run.checkpoints(first.name).glob("*")):
        return
    took_s = sum(read_record(context, stage).seconds for stage in done)
    if took_s < _LONG_S:
        return
    names, took = ", ".join(stage.name for stage in done), timedelta(seconds=round(took_s))
    if not ask(f"{first.name}: {'; '.join(reasons)}. Make {names} again, which took {took} last time?"):
        raise UserError(
            f"{first.name} was left as it is; put the setting back, work in another run with --run, or pass --yes"
        )


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
