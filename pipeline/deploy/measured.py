"""Latency of files on the target, as the contract and the int8 decision need it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from pipeline.console import progress_bar
from pipeline.latency.devices import open_device
from pipeline.latency.measure import Device, Effort, measure_models
from pipeline.latency.models import make_sentinel

_EFFORT = Effort(calls=10)


class Measured(NamedTuple):
    """Wall-clock percentiles of one call, and the noise floor of the machine meanwhile (a share)."""

    p50_ms: float
    p95_ms: float
    p99_ms: float
    noise_floor: float

    def at(self, percentile: int) -> float:
        return {50: self.p50_ms, 95: self.p95_ms, 99: self.p99_ms}[percentile]

    def record(self) -> dict[str, float]:
        return {"p50": self.p50_ms, "p95": self.p95_ms, "p99": self.p99_ms}


# files, timed in turns so that they can be compared -> one result each
Measure = Callable[[Sequence[Path]], list[Measured]]


def measure_on(name: str, threads: int, batch: int) -> Measure:
    """Measurements on the device `name` (cpu, cuda, cuda:N), beside a sentinel."""
    device = open_device(name, threads, batch)
    return lambda paths: measure_files(device, paths, _EFFORT)


def measure_files(device: Device, paths: Sequence[Path], effort: Effort) -> list[Measured]:
    """The latency of every file, in interleaved rounds."""
    with progress_bar() as bar:
        task = bar.add_task("timing on the target", total=effort.rounds, note="")
        measurement = measure_models(
            device,
            {str(path): path for path in paths},
            make_sentinel(device),
            effort,
            after_round=lambda _, share: bar.update(task, completed=share * effort.rounds),
        )
    timings = [measurement.timings[str(path)] for path in paths]
    return [Measured(t.p50_ms, t.p95_ms, t.p99_ms, measurement.noise_floor) for t in timings]
