"""Latency of any ONNX file: percentiles, and two files compared in the same rounds."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipeline.errors import UserError
from pipeline.fingerprint import Fingerprint
from pipeline.latency.budget_rule import Measured
from pipeline.latency.measure import Journal
from pipeline.latency.onnx_device import Shape, ShapedFile, input_shape
from pipeline.latency.statistics import Interval, Timing, bootstrap, in_stretches, summarize
from pipeline.latency.target import TargetMachine

WARM_UP = "until three calls in a row agree with the three before them within 5 %"


@dataclass(frozen=True)
class Bench:
    """The latency of one file, and how it was taken."""

    file: ShapedFile
    made: Fingerprint
    measured: Measured
    timing: Timing

    @property
    def batch(self) -> int:
        """The batch that was timed, which may be fixed in the file."""
        return next((shape[0] for shape in self.file.shapes.values() if shape), 1)

    def record(self) -> dict[str, Any]:
        """As `pipeline bench --json` prints it."""
        timing, measured = asdict(self.timing), self.measured
        return {
            "model": str(self.file.path),
            "device": self.made.device,
            "provider": self.made.provider,
            "threads": self.made.threads,
            "batch": self.batch,
            "shape": dict(self.file.shapes),
            "warm_up": WARM_UP,
            "noise_floor": measured.noise_floor,
            **{name: value for name, value in timing.items() if name != "steady_ms"},
            "p95_interval_ms": measured.interval_ms(95),
            "p99_interval_ms": measured.interval_ms(99),
        }


@dataclass(frozen=True)
class Comparison:
    """Two files timed in turn: `ratio` is the time of B over that of A, below 1 when B is faster."""

    a: Bench
    b: Bench
    ratio: float
    interval: Interval
    same: bool = False
    """Whether both have the same content, so that whatever differs is noise."""

    @property
    def beyond_noise(self) -> bool:
        """The interval leaves 1 out, and the difference is more than a median may move by itself."""
        if self.same:
            return False
        return not self.interval.low <= 1 <= self.interval.high and abs(self.ratio - 1) > self.a.measured.noise_floor

    def describe(self) -> str:
        """Which is faster, by how much, and whether that is more than noise."""
        faster, slower = (self.b, self.a) if self.ratio < 1 else (self.a, self.b)
        before_ms, after_ms = slower.timing.p50_ms, faster.timing.p50_ms
        doubt = f"95 % interval of B / A {self.interval.low:.3f} to {self.interval.high:.3f}"
        doubt += f", noise floor {self.a.measured.noise_floor:.1%}"
        if self.same:
            return f"A and B are the same file, what differs is noise: B takes {self.ratio:.3f} times as long ({doubt})"
        if not self.beyond_noise:
            return f"neither is faster beyond noise: B takes {self.ratio:.3f} times as long as A ({doubt})"
        times = f"p50 {after_ms:.3g} ms against {before_ms:.3g} ms"
        return f"{faster.file.path} is faster by {1 - after_ms / before_ms:.1%}, more than noise: {times} ({doubt})"

    def record(self) -> dict[str, Any]:
        """As `pipeline bench --compare A B --json` prints it."""
        interval = {"ratio_low": self.interval.low, "ratio_high": self.interval.high}
        figures = {"a": self.a.record(), "b": self.b.record(), "ratio": self.ratio, **interval}
        return {**figures, "beyond_noise": self.beyond_noise, "verdict": self.describe()}


def bench_models(
    machine: TargetMachine, paths: Sequence[Path], shapes: Sequence[str] = (), journal: Journal | None = None
) -> list[Bench]:
    """The latency of ONNX files in the same rounds. `shapes` are those of inputs: 1,3,224,224 or NAME=1,3,224,224."""
    made, journal = machine.device.fingerprint, Journal() if journal is None else journal
    files = [ShapedFile(path, _input_shapes(path, made.batch, shapes)) for path in paths]
    pairs = zip(files, machine.time(files, journal), strict=True)
    return [Bench(file, made, measured, journal.timing(str(i))) for i, (file, measured) in enumerate(pairs)]


def compare_models(machine: TargetMachine, a: Path, b: Path, shapes: Sequence[str] = ()) -> Comparison:
    """Two ONNX files in turns, so that what disturbs one disturbs the other."""
    journal = Journal()
    first, second = bench_models(machine, [a, b], shapes, journal)
    ratio, same = second.timing.p50_ms / first.timing.p50_ms, a.read_bytes() == b.read_bytes()
    return Comparison(first, second, ratio, _ratio_interval(journal), same)


def _ratio_interval(journal: Journal) -> Interval:
    """Bootstrap interval of p50 of B over p50 of A, over stretches in which both were timed."""
    a, b = (in_stretches(journal.readings[name]) for name in ("0", "1"))

    def ratio(parts: list[int]) -> float:
        drawn = ([reading for i in parts for reading in own[i]] for own in (a, b))
        a_ms, b_ms = (summarize(readings, journal.sentinel_fast_ms).p50_ms for readings in drawn)
        return b_ms / a_ms

    return bootstrap(len(a), ratio)


def _input_shapes(path: Path, batch: int, given: Sequence[str]) -> dict[str, Shape]:
    """The shape of every input of the file; axes that it leaves free must be given."""
    free = _read_inputs(path)
    wanted: dict[str, Shape] = {}
    for text in given:
        named, equals, sizes = text.rpartition("=")
        if not equals and len(free) != 1:
            raise UserError(f"{path} has the inputs {', '.join(free)}; say which one: --shape NAME={text}")
        name = named if equals else next(iter(free))
        if name not in free:
            raise UserError(f"--shape {text}: {path} has no input {name!r}, only {', '.join(free)}")
        try:
            wanted[name] = tuple(int(size) for size in sizes.replace("x", ",").split(","))
        except ValueError:
            raise UserError(f"--shape {text} is not a shape; write it as 1,3,224,224") from None
    return {name: input_shape(f"{path}, input {name!r}", dims, batch, wanted.get(name)) for name, dims in free.items()}


def _read_inputs(path: Path) -> dict[str, list[int | None] | None]:
    """The axes of every input of an ONNX file, None where they are free; anything else is refused at once."""
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
    weights = {tensor.name for tensor in model.graph.initializer}
    tensors = {entry.name: entry.type.tensor_type for entry in model.graph.input if entry.name not in weights}
    return {
        name: [dim.dim_value or None for dim in tensor.shape.dim] if tensor.HasField("shape") else None
        for name, tensor in tensors.items()
    }
