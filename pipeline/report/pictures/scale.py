"""From figures to places in a picture: ranges, round ticks, and curves thinned to what an eye can see."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

MOST_POINTS = 800

Point = tuple[float, float]


class Range(NamedTuple):
    """The figures that an axis shows."""

    low: float
    high: float

    def place(self, value: float, start_px: float, end_px: float) -> float:
        """Where a figure lies between two ends of the axis; what is outside is drawn at the edge."""
        share = (value - self.low) / (self.high - self.low)
        return start_px + min(max(share, 0.0), 1.0) * (end_px - start_px)


def range_of(values: Iterable[float], from_zero: bool = False, margin: float = 0.05) -> Range:
    """A range around all values; equal ones, or none, get one they lie in the middle of."""
    known = [value for value in values if math.isfinite(value)]
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    if from_zero:
        low = min(low, 0.0)
    if high <= low:
        half = abs(low) / 2 or 0.5
        return Range(low - half, high + half)
    pad = margin * (high - low)
    return Range(low if from_zero and low == 0 else low - pad, high + pad)


def round_ticks(shown: Range, about: int = 5) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten within the range, about so many."""
    raw = (shown.high - shown.low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * (1 - 1e-9))
    first = math.ceil(shown.low / step - 1e-9)
    last = math.floor(shown.high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def show_tick(value: float) -> str:
    return f"{value:.10g}" if abs(value) < 1e6 else f"{value:.3g}"


def thin(points: Sequence[Point], most: int = MOST_POINTS) -> list[Point]:
    """At most `most` points: of every stretch the lowest and the highest, in order, so that no spike is lost."""
    if len(points) <= most:
        return list(points)
    stretches = max(1, most // 2)
    kept: list[Point] = []
    for number in range(stretches):
        part = points[number * len(points) // stretches : (number + 1) * len(points) // stretches]
        ends = {min(range(len(part)), key=lambda i: part[i][1]), max(range(len(part)), key=lambda i: part[i][1])}
        kept += [part[index] for index in sorted(ends)]
    return kept
