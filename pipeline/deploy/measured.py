"""Latency of files on the target, as the contract and the int8 decision need it."""

from collections.abc import Callable, Sequence
from pathlib import Path

from pipeline.console import progress_bar
from pipeline.latency.devices import open_device
from pipeline.latency.measure import CAREFUL, Device, Effort, measure_models
from pipeline.latency.measured import Measured
from pipeline.latency.models import make_sentinel

# files, timed in turns so that they can be compared -> one result each
Measure = Callable[[Sequence[Path]], list[Measured]]


def measure_on(name: str, threads: int, batch: int, sentinel_ms: float | None = None) -> Measure:
    """Measurements on the device `name` (cpu, cuda, cuda:N), beside a sentinel that is known to take `sentinel_ms`."""
    device = open_device(name, threads, batch)
    return lambda paths: measure_files(device, paths, CAREFUL, sentinel_ms)


def measure_files(
    device: Device, paths: Sequence[Path], effort: Effort, sentinel_ms: float | None = None
) -> list[Measured]:
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
    noise = measurement.noise_beside(sentinel_ms)
    return [Measured(t.p50_ms, t.p95_ms, t.p99_ms, noise) for t in timings]
