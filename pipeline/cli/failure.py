"""Whatever ended a command, as the sentence that a user reads and the exit code."""

import os
from typing import NamedTuple

import typer

from pipeline.errors import Interrupted, PipelineError, UserError

_BUG = 1
_REASON_LENGTH = 200
_LIBRARY = (MemoryError, RuntimeError, ArithmeticError, ValueError)


class Failure(NamedTuple):
    """What a user reads, and the exit code."""

    sentence: str
    exit_code: int


INTERRUPTED = Failure("interrupted; the same command goes on from what was saved", Interrupted.exit_code)


def describe_failure(error: BaseException) -> Failure:
    """An error of ours says it itself; those of the system, the command line and libraries get our words."""
    if isinstance(error, PipelineError):
        return Failure(str(error), error.exit_code)
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, typer.Abort):
        return Failure("interrupted at a question", Interrupted.exit_code)
    return Failure(_describe_foreign(error), UserError.exit_code) if _is_known(error) else _confess(error)


def _is_known(error: BaseException) -> bool:
    return isinstance(error, (OSError, *_LIBRARY)) or hasattr(error, "format_message")


def _describe_foreign(error: BaseException) -> str:
    if isinstance(error, OSError):
        what = error.strerror or str(error) or type(error).__name__
        name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else "the system gives no file"
        return f"{what}: {name}"
    if hasattr(error, "format_message"):  # one of Click's usage errors
        return str(error.format_message())
    return f"a library could not do that ({_reason(error) or type(error).__name__}); `--debug` shows where"


def _confess(error: BaseException) -> Failure:
    name = type(error).__name__
    sentence = f"this is a mistake of the program, not yours ({name}: {_reason(error)}); `--debug` shows where"
    return Failure(sentence, _BUG)


def _reason(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0][:_REASON_LENGTH]
