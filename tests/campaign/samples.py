"""A few images and labels, and a payload that must never run."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.campaign.case import Must

Make = Callable[[Path], None]
REFUSED: Must = "be refused"


def pixels(count: int = 20, side: int = 8) -> Any:
    return np.random.default_rng(0).integers(0, 256, (count, side, side), dtype=np.uint8)


def labels(count: int = 20) -> Any:
    return np.arange(count) % 2


class Payload:
    """What runs when it is unpickled."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("pwned",)


class Variant(NamedTuple):
    """How data is made, and what must come of it."""

    make: Make
    must: Must = REFUSED


def then(make: Make, more: Make) -> Make:
    """One after the other."""

    def both(path: Path) -> None:
        make(path)
        more(path)

    return both
