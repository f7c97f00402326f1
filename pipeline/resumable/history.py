"""The log of a loop: one JSON object per line, cut back on resume, and the same figures in TensorBoard."""

import json
import math
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from pipeline.whole_files import write_text

Entry = dict[str, Any]


class History:
    """Entries of history.jsonl up to `resumed_step`; later ones, which will be made again, are cut off.

    Numbers also go to TensorBoard when a folder is given. Ranks other than the writer pass `writes=False`.
    """

    def __init__(
        self, path: Path, resumed_step: int = -1, tensorboard: Path | None = None, writes: bool = True
    ) -> None:
        self._path, self._tensorboard, self._writes = path, tensorboard, writes
        self.entries = read_history(path)
        self._open(resumed_step)

    def _open(self, resumed_step: int) -> None:
        self.entries = [entry for entry in self.entries if entry["step"] <= resumed_step]
        self._board = None
        if not self._writes:
            return
        write_text(self._path, "".join(map(_line, self.entries)))
        self._file = self._path.open("a", encoding="utf-8")
        if self._tensorboard is not None:
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(str(self._tensorboard), purge_step=resumed_step + 1)

    def cut_back(self, step: int) -> None:
        """Forget what came after a step: it will be made again."""
        self.close()
        self._open(step)

    def append(self, step: int, **figures: object) -> None:
        """One entry; numbers that are not finite become null, for JSON has none."""
        entry: Entry = {"step": step, **{name: _plain(value) for name, value in figures.items()}}
        self.entries.append(entry)
        if not self._writes:
            return
        self._file.write(_line(entry))
        self._file.flush()
        if self._board is not None:
            for name, value in figures.items():
                if isinstance(value, (int, float)):
                    self._board.add_scalar(name, value, step)

    def close(self) -> None:
        if self._writes:
            self._file.close()
        if self._board is not None:
            self._board.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def publish_history(working: Path, path: Path) -> list[Entry]:
    """Put the history of work that is done in the place of an earlier one, which stayed until now."""
    entries = read_history(working)
    write_text(path, "".join(map(_line, entries)))
    return entries


def read_history(path: Path) -> list[Entry]:
    """All whole lines of a history; the last may be torn by a power cut, and is left out."""
    return list(takewhile(lambda entry: entry is not None, _parse_lines(path)))  # type: ignore[arg-type]


class Scan(NamedTuple):
    """Entries for people to look at, and how many lines could not be read."""

    entries: Sequence[Entry] = ()
    unreadable: int = 0


def scan_history(path: Path) -> Scan:
    """All lines that can be read, wherever the others stand."""
    parsed = list(_parse_lines(path))
    entries = [entry for entry in parsed if entry is not None]
    return Scan(entries, len(parsed) - len(entries))


def _parse_lines(path: Path) -> Iterator[Entry | None]:
    """Every line as an entry, None where it is not one."""
    if not path.is_file():
        return
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            entry = None
        yield entry if isinstance(entry, dict) and isinstance(entry.get("step"), int) else None


def _plain(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _line(entry: Entry) -> str:
    return json.dumps(entry, ensure_ascii=False, allow_nan=False) + "\n"
