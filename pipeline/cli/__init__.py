"""The commands: one short function each. Whatever is heavy is imported inside the function."""

import sys

_INTERRUPTED = 130


def main() -> None:
    """The console script: an interrupt while the commands are imported ends with a sentence, as any later one does."""
    try:
        from pipeline.cli.commands import main as run_command

        run_command()
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted before anything had begun\n")
        sys.exit(_INTERRUPTED)
