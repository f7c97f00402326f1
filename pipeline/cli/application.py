"""The application that commands register with, and its one way to end."""

import signal
import sys
from typing import Annotated

import typer

from pipeline.errors import PipelineError, UserError
from pipeline.openmp import settle_waiting
from pipeline.resumable.interruption import is_ignored

_INTERRUPTED = "interrupted; the same command goes on from what was saved"

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
    settle_waiting()
    for number in (signal.SIGTERM, signal.SIGHUP):
        if not is_ignored(number):
            signal.signal(number, signal.default_int_handler)
    try:
        status = app(standalone_mode=False)
        if status == 130:  # what typer makes of an interrupt, without a word
            status = _fail(_INTERRUPTED, 130)
    except PipelineError as error:
        status = _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        status = _fail(_INTERRUPTED, 130)
    except OSError as error:
        status = _fail(
            f"{error.strerror or error}: {error.filename or 'the system gives no file'}", UserError.exit_code
        )
    except typer.Abort:
        status = _fail("interrupted", 130)
    except typer.Exit as stop:
        status = stop.exit_code
    except Exception as error:
        if not hasattr(error, "format_message"):  # not one of Click's usage errors
            raise
        status = _fail(error.format_message(), UserError.exit_code)
    sys.exit(status if isinstance(status, int) else 0)


def _fail(sentence: str, exit_code: int) -> int:
    from rich.text import Text

    from pipeline.console import console

    console.print(Text.assemble(("error: ", "bold red"), sentence), soft_wrap=True)
    return exit_code
