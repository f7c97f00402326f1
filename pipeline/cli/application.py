"""The application that commands register with, and its one way to end."""

import os
import signal
import sys
import threading
import traceback
from contextlib import suppress
from typing import Annotated

import typer

from pipeline.cli.failure import INTERRUPTED, describe_failure
from pipeline.errors import UserError
from pipeline.openmp import settle_waiting
from pipeline.resumable.interruption import is_ignored

_DEBUG = "--debug"
_LONGEST_LINE = 1500

app = typer.Typer(
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # which would take [data] in a help text for markup
    help="Find, train and export the best network that keeps to a latency budget measured on your own machine.",
)


@app.callback()
def start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    debug: Annotated[bool, typer.Option(_DEBUG, help="Show where an error arose; any command takes it.")] = False,
) -> None:
    """What is asked of no command."""
    if version:
        from importlib.metadata import version as version_of

        sys.stdout.write(f"latency-pipeline {version_of('latency-pipeline')}\n")
        raise typer.Exit
    if context.invoked_subcommand is None:
        sys.stdout.write(context.get_help() + "\n")


def main() -> None:
    """The console script: every error a user may see is caught here, once."""
    _require_streams()
    settle_waiting()
    for number in (signal.SIGTERM, signal.SIGHUP):
        if not is_ignored(number):
            signal.signal(number, signal.default_int_handler)
    arguments = [argument for argument in sys.argv[1:] if argument != _DEBUG]
    debug = len(arguments) < len(sys.argv) - 1
    if not debug:  # a thread that fails (TensorBoard's, on a full disk) fails whoever waits for it, in one sentence
        threading.excepthook = lambda _: None
    try:
        status = app(args=arguments, standalone_mode=False)
        if status == 130:  # what typer makes of an interrupt, without a word
            status = _fail(*INTERRUPTED)
        sys.stdout.flush()
    except typer.Exit as stop:
        status = stop.exit_code
    except SystemExit:  # Click's way out where whoever read our output has gone
        status = UserError.exit_code
    except (Exception, KeyboardInterrupt) as error:
        if debug:
            traceback.print_exception(error)
        status = _fail(*describe_failure(error))
    _drop_unwritten()
    sys.exit(status if isinstance(status, int) else 0)


def _require_streams() -> None:
    """Where the shell has closed stdout or stderr, nothing is read of it, and no file may take its number."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))


def _drop_unwritten() -> None:
    """What a full disk or a reader that has gone did not take: Python must not try again at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(sentence: str, exit_code: int) -> int:
    from rich.text import Text

    from pipeline.console import console, printable

    with suppress(OSError):  # nobody can be told
        console.print(Text.assemble(("error: ", "bold red"), printable(_cut(sentence))), soft_wrap=True)
    return exit_code


def _cut(sentence: str) -> str:
    """Paths and values may be of any length; nobody reads on."""
    lines = sentence.split("\n")
    return "\n".join(line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]} …" for line in lines)
