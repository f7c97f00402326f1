"""What a library could not do, as a sentence that names the setting most likely at fault.

The suspect is a setting that the library's own words mention, else the one farthest from its default: what failed here
works with the defaults.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pipeline.config import Config
from pipeline.errors import UserError
from pipeline.stages import Stage

LIBRARY_ERRORS = (MemoryError, RuntimeError, ArithmeticError, ValueError)
_SIZES = {
    "resolution", "batch", "batch_size", "cells", "channels", "cells_grid", "channels_grid", "copies",
    "validation_batches", "neumann_terms", "inner_steps", "workers", "threads", "calibration_networks",
}  # fmt: skip
_FEWEST_LETTERS = 3  # of a name that is looked for in a message
_REASON_LENGTH = 200


@contextmanager
def explained(config: Config, stage: Stage | None = None) -> Iterator[None]:
    """Turn an error of a library into the user's; `stage` narrows the settings that may be at fault."""
    try:
        yield
    except LIBRARY_ERRORS as error:
        settings = _settings(config) if stage is None else stage.settings_in(config)
        raise UserError(describe(error, settings)) from error


def describe(error: BaseException, settings: Mapping[str, Any]) -> str:
    """What failed, why in the library's words, and which setting to look at."""
    suspect, short = find_suspect(error, settings), _is_memory(error)
    what = "the memory here does not suffice" if short else "a library could not do what the settings ask for"
    advice = "close other programs" if short else "look at what changed last"
    if suspect:
        section, _, name = suspect.partition(".")
        default = _settings(Config()).get(suspect)
        advice = f"[{section}] {name} = {settings[suspect]!r} is most likely at fault (its default is {default!r})"
    return f"{what} ({reason_of(error)}); {advice}; `--debug` shows where"


def find_suspect(error: BaseException, settings: Mapping[str, Any]) -> str | None:
    """The dotted name of the setting most likely at fault, None where all are at their defaults."""
    text, defaults = str(error).lower(), _settings(Config())
    changed = {name: value for name, value in settings.items() if value != defaults.get(name)}
    for name, value in changed.items():
        words = (name.partition(".")[2], value if isinstance(value, str) else "")
        if any(len(word) >= _FEWEST_LETTERS and word.lower() in text for word in words):
            return name
    if _is_memory(error):
        changed = {name: value for name, value in changed.items() if name.partition(".")[2] in _SIZES}
    return max(changed, key=lambda name: _distance(changed[name], defaults.get(name)), default=None)


def reason_of(error: BaseException) -> str:
    """The first line of a library's error."""
    lines = str(error).strip().splitlines()
    return lines[0][:_REASON_LENGTH] if lines else type(error).__name__


def _is_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or "allocate" in str(error) or "out of memory" in str(error).lower()


def _distance(value: Any, default: Any) -> float:
    """By how much a number was multiplied, as a logarithm; other values count less than any doubling."""
    if isinstance(value, list):
        return max((_distance(one, 1) for one in value), default=0.0)
    numbers = (int, float)
    if isinstance(value, bool) or not isinstance(value, numbers) or not isinstance(default, numbers):
        return 0.5
    return abs(math.log2((abs(value) or 1e-6) / (abs(default) or 1e-6)))


def _settings(config: Config) -> dict[str, Any]:
    return {f"{name}.{key}": value for name, section in config for key, value in section.effective().items()}
