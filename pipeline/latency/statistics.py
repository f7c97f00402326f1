"""From calls to figures: the quiet speed of the machine, percentiles, and its noise floor.

What disturbs a call only makes it slower: interruptions, and other work on the same caches and hyper-threads, which
slows the processor itself for milliseconds or minutes. So the fast end of the calls is the machine undisturbed. With
f = the 2nd percentile, the quiet mode is all calls up to 1.15 f, and its median is what a call takes on the quiet
machine; where nothing disturbs, that is the plain median. A slowdown that lasts longer than a visit is known by the
sentinel, which is timed just before: calls beside a slow sentinel do not count. (Dividing by the sentinel, or taking
plain medians, repeats two to three times worse on a busy machine: large networks suffer more than small ones.)

Needs only Python and numpy, so that a timing kit can carry it to a machine without torch.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_MS_PER_NS = 1e-6
# A call that waited for the processor longer than this was interrupted; the constant covers the clocks' own cost.
_INTERRUPTED_SHARE, _INTERRUPTED_MS = 1.05, 0.02
_FAST_PERCENTILE, _QUIET_SHARE = 2.0, 1.15
# The noise floor: looks per block, calls that a model gets, and how often the looks are drawn again.
_BLOCK, _CALLS, _RESAMPLES, _FEWEST_BLOCKS = 5, 120, 300, 3
_STRETCHES = 20  # that calls are drawn again in


class Reading(NamedTuple):
    """One call: wall clock, the CPU time of the calling thread where one thread does all the work, and the sentinel's
    time just before."""

    wall_ms: float
    cpu_ms: float | None
    sentinel_ms: float | None = None

    @property
    def steady_ms(self) -> float:
        """The clock that other processes disturb least."""
        return self.wall_ms if self.cpu_ms is None else self.cpu_ms

    @property
    def interrupted(self) -> bool:
        return self.cpu_ms is not None and self.wall_ms > _INTERRUPTED_SHARE * self.cpu_ms + _INTERRUPTED_MS


def read_clocks(call: Callable[[], object], with_cpu_time: bool) -> Reading:
    """One call on both clocks. With one thread all work is in the calling one, whose CPU time nothing else disturbs."""
    cpu = time.thread_time_ns()
    wall = time.perf_counter_ns()
    call()
    wall = time.perf_counter_ns() - wall
    cpu = time.thread_time_ns() - cpu
    return Reading(wall * _MS_PER_NS, cpu * _MS_PER_NS if with_cpu_time else None)


@dataclass(frozen=True)
class Timing:
    """How long a model takes.

    p50 is the median wall clock of a call on the quiet machine; raw_p50, p95 and p99 are over all calls as they came,
    disturbances included; the others are over the calls beside a quiet sentinel. fast is their fast end, at most p50.
    steady is that end in CPU time (wall clock with several threads), the steadiest figure: differences of models are
    taken of it. `quiet` of the `count` calls were in the quiet mode; iqr is theirs.
    """

    p50_ms: float
    p95_ms: float
    p99_ms: float
    raw_p50_ms: float
    fast_ms: float
    steady_ms: float
    iqr_ms: float
    count: int
    quiet: int


def fast_ms(values: Array) -> float:
    """The fast end of the values."""
    return float(np.percentile(values, _FAST_PERCENTILE))


def quiet_values(values: Array) -> Array:
    """The values of the quiet mode."""
    return values[values <= _QUIET_SHARE * fast_ms(values)]


def summarize(readings: Sequence[Reading], sentinel_fast_ms: float = np.inf) -> Timing:
    """The figures of one model, where the fast end of the sentinel is known.

    p50 = the quiet median of CPU time · median(wall / CPU of the calls that ran through): as steady as CPU time, and
    a wall clock. When the sentinel was slow throughout, all calls have to do.
    """
    beside_quiet = [r for r in readings if r.sentinel_ms is None or r.sentinel_ms <= _QUIET_SHARE * sentinel_fast_ms]
    counted = beside_quiet or readings
    steady = np.array([reading.steady_ms for reading in counted])
    quiet = quiet_values(steady)
    through = [reading for reading in counted if not reading.interrupted]
    waiting = float(np.median([r.wall_ms / r.steady_ms for r in through])) if through else 1.0
    low, median, high = (float(value) for value in np.percentile(quiet, [25.0, 50.0, 75.0]))
    raw_p50, p95, p99 = np.percentile([reading.wall_ms for reading in readings], [50.0, 95.0, 99.0])
    p50, fast = waiting * median, fast_ms(steady)
    return Timing(
        p50_ms=p50,
        p95_ms=max(float(p95), p50),
        p99_ms=max(float(p99), p50),
        raw_p50_ms=float(raw_p50),
        fast_ms=min(waiting * fast, p50),  # of a few calls in two modes, the fast end lies between the modes
        steady_ms=fast,
        iqr_ms=waiting * (high - low),
        count=len(readings),
        quiet=len(quiet) if beside_quiet else 0,
    )


def noise_floor(looks: Sequence[float]) -> float:
    """Relative noise of a p50: half the 95 % interval of the sentinel's quiet median over the calls that a model gets.

    The interval is that of medians over looks drawn again, in blocks of neighbours, so that a disturbance that lasts
    counts for what it is. (The noise of single calls is some ten times larger and says nothing about their median.)
    """
    count = len(looks) // _BLOCK
    if count < _FEWEST_BLOCKS:
        return 1.0
    blocks = np.asarray(looks[: count * _BLOCK], np.float64).reshape(count, _BLOCK)
    generator = np.random.default_rng(0)
    drawn = generator.integers(0, count, (_RESAMPLES, min(count, _CALLS // _BLOCK)))
    medians = [float(np.median(quiet_values(blocks[rows].ravel()))) for rows in drawn]
    low, middle, high = np.percentile(medians, [2.5, 50.0, 97.5])
    return float((high - low) / 2.0 / middle)


class Interval(NamedTuple):
    """A 95 % interval."""

    low: float
    high: float


def in_stretches(readings: Sequence[Reading]) -> list[Sequence[Reading]]:
    """Neighbouring calls together: drawn again as a whole, a disturbance that lasts counts for what it is."""
    count = min(_STRETCHES, len(readings))
    return [readings[start:end] for start, end in pairwise(i * len(readings) // count for i in range(count + 1))]


def bootstrap(count: int, figure: Callable[[list[int]], float]) -> Interval:
    """The interval of a figure of `count` parts, from the figure of parts drawn again."""
    drawn = np.random.default_rng(0).integers(0, count, (_RESAMPLES, count)).tolist()
    low, high = np.percentile([figure(parts) for parts in drawn], [2.5, 97.5])
    return Interval(float(low), float(high))


def tail_interval(readings: Sequence[Reading], percentile: float) -> Interval:
    """The interval of a percentile over all calls as they came (p95 or p99 of a `Timing`)."""
    stretches = [np.array([reading.wall_ms for reading in part]) for part in in_stretches(readings)]
    return bootstrap(
        len(stretches), lambda parts: float(np.percentile(np.concatenate([stretches[i] for i in parts]), percentile))
    )
