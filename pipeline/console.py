"""What a person sees: messages, tables and progress on stderr; results go to stdout."""

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

console = Console(stderr=True, highlight=False)


def say(message: str) -> None:
    """One line for the user."""
    console.print(message, markup=False, soft_wrap=True)


def progress_bar() -> Progress:
    """A bar with count, elapsed time and ETA; `note` is the text a caller may update."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("ETA"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=console,
    )
