"""labels.txt: the names of the classes, one line each; any text survives."""

import re
from dataclasses import dataclass
from typing import Self

from pipeline.artifacts.artifact import Typed
from pipeline.errors import UserError

_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r"}


@dataclass(frozen=True)
class Labels(Typed):
    r"""One label per line; a backslash, line feed or carriage return in a label is written \\, \n or \r."""

    name, maker = "labels", "export"

    labels: tuple[str, ...]

    def _content(self) -> bytes:
        table = str.maketrans(_ESCAPES)
        try:
            return b"".join(f"{label.translate(table)}\n".encode() for label in self.labels)
        except UnicodeEncodeError as error:
            raise UserError(f"the label {error.object[:-1]!r} is not valid Unicode text; rename the class") from None

    @classmethod
    def _parse(cls, content: bytes) -> Self:
        # not splitlines(), which also cuts at a dozen other characters
        *lines, rest = content.decode().split("\n")
        if rest:
            raise ValueError("its last line is cut short")
        return cls(tuple(_unescape(line) for line in lines))


def _unescape(line: str) -> str:
    plain = {escape: character for character, escape in _ESCAPES.items()}
    return re.sub(r"\\[\\nr]", lambda found: plain[found[0]], line)
