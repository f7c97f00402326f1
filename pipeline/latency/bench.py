"""Latency of any ONNX file: percentiles, and two files compared in the same rounds."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pipeline.errors import UserError
from pipeline.latency.measure import CAREFUL, Device, Effort, Journal, measure_models
from pipeline.latency.models import make_sentinel
from pipeline.latency.statistics import Timing, summarize

_RESAMPLES = 300
WARM_UP = "until three calls in a row agree with the three before them within 5 %"

Progress = Callable[[float], None]


class Interval(NamedTuple):
    """A 95 % interval."""

    low: float
    high: float


@dataclass(frozen=True)
class Bench:
    """The latency of one file, and how it was taken."""

    model: str
    device: str
    provider: str
    threads: int
    batch: int
    warm_up: str
    noise_floor: float
    timing: Timing

    def record(self) -> dict[str, Any]:
        """As `pipeline bench --json` prints it."""
        flat: dict[str, Any] = asdict(self)
        timing: dict[str, Any] = flat.pop("timing")
        return flat | timing


@dataclass(frozen=True)
class Comparison:
    """Two files timed in turn: `ratio` is the time of B over that of A, below 1 when B is faster."""

    a: Bench
    b: Bench
    ratio: float
    interval: Interval

    def record(self) -> dict[str, Any]:
        """As `pipeline bench A B --json` prints it."""
        interval = {"ratio_low": self.interval.low, "ratio_high": self.interval.high}
        return {"a": self.a.record(), "b": self.b.record(), "ratio": self.ratio, **interval}


def bench_model(device: Device, path: Path, effort: Effort | None = None, progress: Progress | None = None) -> Bench:
    """The latency of an ONNX file; free dimensions are the batch in first place and 1 elsewhere."""
    return _measure(device, [path], Journal(), effort, progress)[0]


def compare_models(
    device: Device, a: Path, b: Path, effort: Effort | None = None, progress: Progress | None = None
) -> Comparison:
    """Two ONNX files in the same rounds, so that what disturbs one disturbs the other."""
    journal = Journal()
    first, second = _measure(device, [a, b], journal, effort, progress)
    interval = _ratio_interval(journal, _name(0, a), _name(1, b))
    return Comparison(first, second, second.timing.p50_ms / first.timing.p50_ms, interval)


def _measure(
    device: Device, paths: list[Path], journal: Journal, effort: Effort | None, progress: Progress | None
) -> list[Bench]:
    for path in paths:
        check_is_onnx(path)
    names = [_name(index, path) for index, path in enumerate(paths)]
    measured = measure_models(
        device,
        dict(zip(names, paths, strict=True)),
        make_sentinel(device),
        effort or CAREFUL,
        journal,
        (lambda _, share: progress(share)) if progress else None,
    )
    made = device.fingerprint
    return [
        Bench(
            model=str(path),
            device=made.device,
            provider=made.provider,
            threads=made.threads,
            batch=made.batch,
            warm_up=WARM_UP,
            noise_floor=measured.noise_floor,
            timing=measured.timings[name],
        )
        for name, path in zip(names, paths, strict=True)
    ]


def _name(index: int, path: Path) -> str:
    return f"{index}:{path}"


def check_is_onnx(path: Path) -> None:
    """Refuse what is not an ONNX file before anything slow starts."""
    import onnx

    if not path.is_file():
        raise UserError(f"there is no file {path}")
    try:
        model = onnx.load(path, load_external_data=False)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    except Exception:  # protobuf's DecodeError, which has no typed home
        raise UserError(f"{path} is not an ONNX file") from None
    if not model.ir_version or not model.graph.node:
        raise UserError(f"{path} is not an ONNX file")


def _ratio_interval(journal: Journal, a: str, b: str) -> Interval:
    """Bootstrap interval of p50 of B over p50 of A."""
    generator, sentinel_fast_ms = np.random.default_rng(0), journal.sentinel_fast_ms

    def resampled(name: str) -> float:
        readings = journal.readings[name]
        drawn = [readings[i] for i in generator.integers(len(readings), size=len(readings))]
        return summarize(drawn, sentinel_fast_ms).p50_ms

    low, high = np.percentile([resampled(b) / resampled(a) for _ in range(_RESAMPLES)], [2.5, 97.5])
    return Interval(float(low), float(high))
