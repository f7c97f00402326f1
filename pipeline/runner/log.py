"""The log of a run: what was said while its stages worked."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from pipeline.console import say, take_spoken
from pipeline.errors import Interrupted, PipelineError
from pipeline.rundir import RunDir


@contextmanager
def logged(run: RunDir) -> Iterator[None]:
    """Append what was said to the log of the run when the block ends; a refusal changes nothing, not even the log."""
    try:
        yield
    except PipelineError as error:
        if isinstance(error, Interrupted):
            _append(run, str(error))
        raise
    except BaseException as error:
        _append(run, "interrupted" if isinstance(error, KeyboardInterrupt) else f"{type(error).__name__}: {error}")
        raise
    _append(run)


def _append(run: RunDir, *closing: str) -> None:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    lines = [f"--- {now} {' '.join(['pipeline', *sys.argv[1:]])}", *take_spoken(), *closing]
    if run.log.exists() and not run.log.is_file():
        say(f"{run.log} is not a file, so nothing of this is kept there")
        return
    run.log.parent.mkdir(parents=True, exist_ok=True)
    with run.log.open("a", encoding="utf-8", errors="backslashreplace") as file:
        file.write("\n".join(lines) + "\n")
