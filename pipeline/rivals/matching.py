"""The width at which a network takes a wanted time, by measuring."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from torch import nn

from pipeline.rivals.widths import Build

_NARROWEST, _WIDEST, _HALVINGS = 0.1, 8.0, 8
_NEAR_ENOUGH, _FAR = 0.03, 0.12
_ATTEMPTS, _AROUND = 3, 1.5


class Match(NamedTuple):
    """A width, and the latency there over the one that was wanted."""

    width: float
    ratio: float

    @property
    def is_close(self) -> bool:
        """Whether the two may be called equally fast."""
        return abs(self.ratio - 1) <= _FAR


def match_width(build: Build, ratio_of: Callable[[nn.Module], float]) -> Match:
    """Bisect the width, in its logarithm, until the ratio of latencies is 1; of all that were tried, the nearest.

    Latency grows with the width, though in steps: what a width lacks another a little larger may have too much of. One
    reading that a neighbour disturbed leads astray for good, so what ends far off is sought again around the nearest.
    """
    low, high, tried = _NARROWEST, _WIDEST, list[Match]()
    for _ in range(_ATTEMPTS):
        tried += _bisect(build, ratio_of, low, high)
        nearest = min(tried, key=lambda match: abs(match.ratio - 1))
        if nearest.is_close:
            break
        low, high = max(_NARROWEST, nearest.width / _AROUND), min(_WIDEST, nearest.width * _AROUND)
    return nearest


def _bisect(build: Build, ratio_of: Callable[[nn.Module], float], low: float, high: float) -> Iterator[Match]:
    for _ in range(_HALVINGS):
        width = (low * high) ** 0.5
        found = Match(width, ratio_of(build(width)))
        yield found
        if abs(found.ratio - 1) <= _NEAR_ENOUGH:
            return
        low, high = (low, width) if found.ratio > 1 else (width, high)
