"""One case: what is done to a finished project, the command that follows, and what must come of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple, Protocol

Must = Literal["be refused", "be done", "end well"]


def leave(project: Path) -> None:
    """Change nothing."""


@dataclass(frozen=True)
class Limits:
    """What the process may have: bytes of a file, open files, and the nth touch of the project that ends badly."""

    file_bytes: int | None = None
    open_files: int | None = None
    memory_bytes: int = 12 << 30
    fault: str = ""  # the name of an error, or "kill"
    fault_at: int = 0


@dataclass(frozen=True)
class Case:
    """`change` spoils a copy of the project, then `pipeline` runs with these arguments.

    `must` is what the generator knows of the outcome: a case that *must be refused* and is done is a silent acceptance.
    """

    family: str
    name: str
    arguments: tuple[str, ...]
    change: Callable[[Path], None] = leave
    must: Must = "end well"
    environment: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    script: str = ""  # a file to run instead of `pipeline`
    folder: str = "."  # where it is called from

    def __str__(self) -> str:
        return f"{self.family}: {self.name} | {' '.join(map(repr, self.arguments))} | must {self.must}"


class Draw(Protocol):
    """A generator of cases: one more of its kind."""

    def __call__(self, random: Random) -> Case: ...


class Ending(NamedTuple):
    """How a process ended: its exit code (negative for a signal), what it printed, and what it took."""

    code: int
    stdout: str
    stderr: str
    cpu_s: float
    hung: bool
