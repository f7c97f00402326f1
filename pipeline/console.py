"""What a person sees: messages, tables and progress on stderr; results go to stdout."""

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

console = Console(stderr=True, highlight=False)


def is_follower() -> bool:
    """A process that a launcher started beside the first one: it computes; the first one speaks and keeps the books."""
    return int(os.environ.get("RANK", "0")) > 0


def say(message: str) -> None:
    """One line for the user."""
    if is_follower():
        return
    console.print(message, markup=False, soft_wrap=True)


def print_result(record: Mapping[str, Any], as_json: bool) -> None:
    """A result on stdout: one JSON object, or a line per figure."""
    if as_json:
        sys.stdout.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")
        return
    width = max(map(len, record))
    for name, value in record.items():
        shown = f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if isinstance(value, float) else value
        sys.stdout.write(f"{name:<{width}}  {'–' if value is None else shown}\n")


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
        disable=is_follower(),
    )
