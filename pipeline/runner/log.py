"""The log of a run: what was said while its stages worked."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from pipeline.console import say, take_spoken
from pipeline.errors import Interrupted, PipelineError
from pipeline.rundir import RunDir

_begun: set[Path] = set()  # logs with an entry of this process, which is one command


@contextmanager
def logged(run: RunDir, goes_on: bool = False) -> Iterator[None]:
    """Append what was said to the log of the run when the block ends; a refusal changes nothing, not even the log.

    What `goes_on` belongs to the entry of the same command, and gets a heading only where it has made none.
    """
    headed = goes_on and run.log in _begun
    now = datetime.now(UTC).isoformat(timespec="seconds")
    heading = [] if headed else [f"--- {now} {' '.join(['pipeline', *sys.argv[1:]])}"]
    try:
        yield
    except PipelineError as error:
        if isinstance(error, Interrupted):
            _append(run, *heading, *take_spoken(), str(error))
        raise
    except BaseException as error:
        closing = "interrupted" if isinstance(error, KeyboardInterrupt) else f"{type(error).__name__}: {error}"
        _append(run, *heading, *take_spoken(), closing)
        raise
    _append(run, *heading, *take_spoken())


def _append(run: RunDir, *lines: str) -> None:
    if run.log.exists() and not run.log.is_file():
        say(f"{run.log} is not a file, so nothing of this is kept there")
        return
    run.log.parent.mkdir(parents=True, exist_ok=True)
    with run.log.open("a", encoding="utf-8", errors="backslashreplace") as file:
        file.write("\n".join(lines) + "\n")
    _begun.add(run.log)
