"""Class names: one line each in labels.txt, a JSON list in the file's metadata; any text survives both."""

import json
import re
from pathlib import Path

import onnx

from pipeline.deploy.graph import read_metadata
from pipeline.errors import UserError
from pipeline.rundir import write_text

_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r"}


def write_labels(path: Path, labels: tuple[str, ...]) -> None:
    """labels.txt."""
    for label in labels:
        try:
            label.encode()
        except UnicodeEncodeError:
            raise UserError(f"the label {label!r} is not valid Unicode text; rename the class") from None
    write_text(path, render_labels(labels))


def render_labels(labels: tuple[str, ...]) -> str:
    r"""One label per line; a backslash, line feed or carriage return in a label is written \\, \n or \r."""
    table = str.maketrans(_ESCAPES)
    return "".join(label.translate(table) + "\n" for label in labels)


def read_labels(path: Path) -> tuple[str, ...]:
    """The labels that `write_labels` wrote."""
    with path.open(encoding="utf-8", newline="") as file:
        return parse_labels(file.read())


def parse_labels(text: str) -> tuple[str, ...]:
    """The inverse of `render_labels`."""
    # not splitlines(), which also cuts at a dozen other characters
    return tuple(_unescape(line) for line in text.split("\n")[:-1])


def _unescape(line: str) -> str:
    plain = {escape: character for character, escape in _ESCAPES.items()}
    return re.sub(r"\\[\\nr]", lambda found: plain[found[0]], line)


def stored_labels(model: onnx.ModelProto) -> tuple[str, ...]:
    """The labels in the metadata of a model."""
    return tuple(json.loads(read_metadata(model)["labels"]))
