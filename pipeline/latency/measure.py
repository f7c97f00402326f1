"""The timing core: many models in interleaved rounds beside a sentinel, on any device.

Needs only Python and numpy, so that a timing kit can carry it to a machine without torch.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from pipeline.fingerprint import Fingerprint
from pipeline.latency.statistics import Reading, Timing, fast_ms, noise_floor, quiet_values, summarize

_WARM_WINDOW, _WARM_TOLERANCE, _WARM_MOST = 3, 0.05, 20
# Models with a smaller share of undisturbed calls than this get more rounds.
_QUIET_ENOUGH = 0.3
# Calls of the sentinel that bring it into the caches, whatever ran before (after one it is 6 % slower beside networks
# than beside single operations, after five 2 %), and then looks at it.
_SENTINEL_WARM, _LOOKS = 5, 2


class Runner(Protocol):
    """A loaded model."""

    def run(self) -> Reading: ...


class Device(Protocol):
    """Where models run; `takes` says what `load` accepts: "onnx" (a path or bytes) or "torch" (a TorchModel)."""

    @property
    def takes(self) -> str: ...

    @property
    def fingerprint(self) -> Fingerprint: ...

    def load(self, model: Any) -> Runner: ...


@dataclass(frozen=True)
class Effort:
    """How much timing: rounds over all models, calls in a round, and the most rounds that disturbed models get more."""

    rounds: int = 30
    calls: int = 4
    extra_rounds: int = 60


# For a single network: many short visits, so that its median and the sentinel's rest on as many moments.
CAREFUL = Effort(rounds=60, calls=5, extra_rounds=120)


@dataclass(frozen=True)
class Measurement:
    """The timing of every model, the sentinel on the quiet machine, and the relative noise of a p50."""

    timings: Mapping[str, Timing]
    sentinel_ms: float
    noise_floor: float

    def noise_beside(self, known_sentinel_ms: float | None) -> float:
        """The noise floor, or how much slower the sentinel runs than it is known to, whichever is larger.

        A neighbour can slow the whole machine for seconds: every call alike, so that no spread shows it.
        """
        slower = self.sentinel_ms / known_sentinel_ms - 1.0 if known_sentinel_ms else 0.0
        return max(self.noise_floor, slower)


@dataclass
class Journal:
    """All readings so far and every look at the sentinel in order; saved as JSON, it can be taken up again."""

    readings: dict[str, list[Reading]] = field(default_factory=dict)
    looks: list[float] = field(default_factory=list)

    def record(self) -> dict[str, Any]:
        return {"readings": self.readings, "looks_ms": self.looks}

    def measurement(self) -> Measurement:
        """What the readings say."""
        sentinel_ms = float(np.median(quiet_values(np.array(self.looks))))
        timings = {name: self.timing(name) for name in self.readings}
        return Measurement(timings, sentinel_ms, noise_floor(self.looks))

    def timing(self, name: str) -> Timing:
        """What the readings of one model say, beside all looks at the sentinel."""
        return summarize(self.readings[name], self.sentinel_fast_ms)

    @property
    def sentinel_fast_ms(self) -> float:
        return fast_ms(np.array(self.looks))


def journal_from_record(record: Mapping[str, Any]) -> Journal:
    """The journal that `Journal.record` wrote."""
    readings = {name: [Reading(*row) for row in rows] for name, rows in record["readings"].items()}
    return Journal(readings, list(record["looks_ms"]))


def measure_models(
    device: Device,
    models: Mapping[str, Any],
    sentinel: Any,
    effort: Effort | None = None,
    journal: Journal | None = None,
    after_round: Callable[[Journal, float], None] | None = None,
) -> Measurement:
    """Time all models in turn, round after round, so that drift hits all alike.

    A `journal` is added to: readings it has already are not taken again. `after_round` is told the journal and the
    share that is done, for saving and for a progress bar.
    """
    effort, journal = effort or Effort(), journal if journal is not None else Journal()
    bench = _Bench(device.load(sentinel), journal)
    _warm_up(bench.sentinel)
    for share in bench.time({name: device.load(model) for name, model in models.items()}, effort):
        if after_round is not None:
            after_round(journal, share)
    measured = journal.measurement()
    return replace(measured, timings={name: measured.timings[name] for name in models})


def _warm_up(runner: Runner) -> None:
    """Call until three calls in a row take what the three before them took, within 5 %."""
    times = [runner.run().wall_ms for _ in range(_WARM_WINDOW)]
    while len(times) < _WARM_MOST:
        times += [runner.run().wall_ms for _ in range(_WARM_WINDOW)]
        before, now = np.median(times[-2 * _WARM_WINDOW : -_WARM_WINDOW]), np.median(times[-_WARM_WINDOW:])
        if abs(now - before) <= _WARM_TOLERANCE * before:
            return


class _Bench:
    """The sentinel beside the models."""

    def __init__(self, sentinel: Runner, journal: Journal) -> None:
        self.sentinel, self._journal = sentinel, journal

    def time(self, runners: Mapping[str, Runner], effort: Effort) -> Iterator[float]:
        """All rounds over some models, then more of those that were disturbed; yields the share that is done."""
        readings = {name: self._journal.readings.setdefault(name, []) for name in runners}
        for name, runner in runners.items():
            if len(readings[name]) < effort.rounds * effort.calls:
                _warm_up(runner)
        for turn in range(effort.rounds):
            for name, runner in runners.items():
                if len(readings[name]) < (turn + 1) * effort.calls:
                    self._visit(runner, readings[name], effort.calls)
            yield (turn + 1) / effort.rounds
        enough = _QUIET_ENOUGH * effort.rounds * effort.calls
        for _ in range(effort.extra_rounds):
            disturbed = [name for name in runners if self._journal.timing(name).quiet < enough]
            if not disturbed:
                break
            for name in disturbed:
                self._visit(runners[name], readings[name], effort.calls)
            yield 1.0

    def _visit(self, runner: Runner, readings: list[Reading], calls: int) -> None:
        """Looks at the sentinel, then `calls` readings; the first call of a model brings it into the caches."""
        for _ in range(_SENTINEL_WARM):
            self.sentinel.run()
        looks = [self.sentinel.run().steady_ms for _ in range(_LOOKS)]
        self._journal.looks += looks
        runner.run()
        readings += [runner.run()._replace(sentinel_ms=min(looks)) for _ in range(calls)]
