"""What a person sees: messages, tables and progress on stderr; results go to stdout."""

import io
import json
import os
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column, Table
from rich.text import Text

from pipeline.errors import UserError

_LINE_EVERY_S = 30.0
_SPEED_OVER_S = 3600.0  # steps of minutes have an ETA too
_LOG_WIDTH = 120
_MOST_SPOKEN = 10_000
_spoken: deque[str] = deque(maxlen=_MOST_SPOKEN)

console = Console(stderr=True, highlight=False)


def is_follower() -> bool:
    """A process that a launcher started beside the first one: it computes; the first one speaks and keeps the books."""
    rank = os.environ.get("RANK", "0")
    return rank.strip("0").isdecimal() and os.environ.get("WORLD_SIZE", "1") != "1"  # else there is none to follow


def printable(text: str) -> str:
    """The text with characters that would steer a terminal, or cannot be written to it, as their escapes."""
    encoding = sys.stderr.encoding or "utf-8"
    plain = "".join(one if one == "\n" or one.isprintable() else _escaped(one) for one in text)
    return plain.encode(encoding, "backslashreplace").decode(encoding)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def launched_processes() -> int:
    """How many processes the launcher started; 1 without one."""
    return max(said_by_launcher("WORLD_SIZE", 1), 1)


def said_by_launcher(name: str, default: int) -> int:
    """A number that torchrun puts into the environment of every process."""
    text = os.environ.get(name, str(default))
    if not text.isdecimal():
        raise UserError(f"{name}={text} in the environment is not a number; unset it, or start processes with torchrun")
    return int(text)


def counted(count: int, noun: str) -> str:
    """A number with its noun: "1 epoch", "2 epochs"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def say(message: str) -> None:
    """One line for the user."""
    if is_follower():
        return
    console.print(printable(message), markup=False, soft_wrap=True)
    _spoken.append(message)


def show(table: Table) -> None:
    """A table for the user."""
    if is_follower():
        return
    console.print(table)
    text = Console(file=io.StringIO(), width=_LOG_WIDTH)
    text.print(table)
    _spoken.append(text.file.getvalue().rstrip())  # type: ignore[attr-defined]


def take_spoken() -> list[str]:
    """What was said since the last call, for a log."""
    spoken = list(_spoken)
    _spoken.clear()
    return spoken


def ask(question: str) -> bool:
    """A yes or no from the person at the terminal; yes where there is none."""
    if is_follower() or not (sys.stdin.isatty() and console.is_terminal):
        return True
    try:
        return console.input(Text(f"{question} [y/N] ")).strip().lower() in ("y", "yes")
    except EOFError:
        return False


def print_result(record: Mapping[str, Any], as_json: bool) -> None:
    """A result on stdout: one JSON object, or a line per figure."""
    if as_json:
        sys.stdout.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")
        return
    lines = dict(_flatten(record))
    width = max(map(len, lines))
    for name, value in lines.items():
        sys.stdout.write(f"{name:<{width}}  {_show(value)}\n")


def print_ranking(record: Mapping[str, Any], as_json: bool) -> None:
    """A ranking on stdout: one JSON object in the order given, or a line per genotype, the best first."""
    if as_json:
        print_result(record, as_json)
        return
    for row in sorted(record["genotypes"], key=lambda row: -row["score"]):
        sys.stdout.write(f"line {row['line']:<6} score {row['score']:+.3f}\n")


def _flatten(record: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Figures within figures under both names."""
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name} ")
        else:
            yield prefix + name, value


def _show(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_show, value))
    if value is None or isinstance(value, bool):
        return {None: "–", True: "yes", False: "no"}[value]
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if isinstance(value, float) else str(value)


class Bar(Progress):
    """A progress bar; where there is no terminal to draw it, a line every half minute."""

    _silent_since = 0.0

    def stop(self) -> None:
        """Where nothing is drawn, what leaves no line behind leaves no empty one either."""
        if self.live.transient and not self.console.is_interactive:
            self.live.stop()
        else:
            super().stop()

    def finish(self, task_id: TaskID) -> None:
        """What was done is all there was to do: nobody is to think that it was cut short."""
        self.update(task_id, total=self.tasks[task_id].completed)

    def update(self, task_id: TaskID, **changes: Any) -> None:
        super().update(task_id, **changes)
        now = time.monotonic()
        self._silent_since = self._silent_since or now
        if self.console.is_terminal or now - self._silent_since < _LINE_EVERY_S or self.disable:
            return
        self._silent_since, task = now, self.tasks[task_id]
        left_s = task.time_remaining
        eta = "" if left_s is None else f"ETA {timedelta(seconds=round(left_s))}"
        parts = (f"{task.description} {task.completed:g}/{task.total:g}", eta, task.fields["note"])
        say(", ".join(part for part in parts if part))


def progress_bar(transient: bool = False) -> Bar:
    """A bar with count, elapsed time and ETA; `note` is a text that callers may update and that yields first.

    A `transient` one leaves no line behind: for what is done many times over, and reported by whoever asked for it.
    """
    note = Column(no_wrap=True, overflow="ellipsis", ratio=1)
    return Bar(
        TextColumn("{task.description}", table_column=Column(no_wrap=True)),
        BarColumn(bar_width=12),
        MofNCompleteColumn(table_column=Column(no_wrap=True, min_width=7)),
        TimeElapsedColumn(table_column=Column(no_wrap=True, min_width=7)),
        TextColumn("ETA", table_column=Column(no_wrap=True, min_width=3)),
        TimeRemainingColumn(table_column=Column(no_wrap=True, min_width=7)),
        TextColumn("{task.fields[note]}", table_column=note),
        console=console,
        speed_estimate_period=_SPEED_OVER_S,
        expand=True,
        transient=transient,
        disable=is_follower(),
    )
