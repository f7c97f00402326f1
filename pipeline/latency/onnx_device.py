"""Devices driven by onnxruntime: CPU, and CUDA with the inputs and outputs kept on the GPU.

Needs only Python, numpy and onnxruntime, so that a timing kit can carry it to a machine without torch.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pipeline.errors import UserError
from pipeline.fingerprint import Fingerprint, available_cores, processor_flags_hash, processor_name
from pipeline.latency.statistics import Reading, read_clocks

_TYPES = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
    "tensor(uint8)": np.uint8,
    "tensor(int8)": np.int8,
    "tensor(int32)": np.int32,
    "tensor(int64)": np.int64,
    "tensor(bool)": np.bool_,
}

Feed = dict[str, np.ndarray[Any, Any]]
Shape = tuple[int, ...]


class ShapedFile(NamedTuple):
    """A file and the shapes that its inputs are timed at."""

    path: Path
    shapes: Mapping[str, Shape]


class Opened(NamedTuple):
    """A session and what it is fed."""

    session: Any
    feed: Feed


class OnnxDevice:
    """An onnxruntime session per model: all graph optimizations, `threads` threads inside an operator, one across."""

    takes = "onnx"

    def __init__(self, kind: str, index: int, threads: int, batch: int) -> None:
        import onnxruntime

        self._runtime = onnxruntime
        self._kind, self._index, self._threads, self._batch = kind, index, threads, batch
        self._provider = "CUDAExecutionProvider" if kind == "cuda" else "CPUExecutionProvider"
        available = onnxruntime.get_available_providers()
        if self._provider not in available:
            raise UserError(
                f"onnxruntime {onnxruntime.__version__} has no {self._provider} here (it has {', '.join(available)}); "
                "use --device cpu, or install onnxruntime-gpu (make setup CUDA=1)"
            )
        if not 1 <= threads <= available_cores():
            raise UserError(
                f"threads must be between 1 and the {available_cores()} cores of this machine, not {threads}"
            )

    @property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint(
            device=self._kind,
            processor=processor_name() if self._kind == "cpu" else _gpu_name(self._index),
            flags_hash=processor_flags_hash(),
            cores=available_cores(),
            threads=self._threads,
            runtime="onnxruntime",
            runtime_version=self._runtime.__version__,
            provider=self._provider,
            batch=self._batch,
        )

    def load(self, model: Path | bytes | ShapedFile) -> "CpuRunner | CudaRunner":
        """A session ready to be timed; a file that onnxruntime cannot read is refused."""
        session, feed = self.open(model)
        if self._kind == "cuda":
            return CudaRunner(session, feed, self._index)
        return CpuRunner(session, feed, with_cpu_time=self._threads == 1)

    def open(self, model: Path | bytes | ShapedFile, profile: Path | None = None) -> Opened:
        """The session and an input for it; with `profile`, onnxruntime's profiler writes to a file that starts so."""
        model, shapes = model if isinstance(model, ShapedFile) else (model, {})
        options = self._runtime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.inter_op_num_threads = 1
        options.execution_mode = self._runtime.ExecutionMode.ORT_SEQUENTIAL
        options.graph_optimization_level = self._runtime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.log_severity_level = 3
        if profile is not None:
            options.enable_profiling, options.profile_file_prefix = True, str(profile)
        provider: Any = (self._provider, {"device_id": self._index}) if self._kind == "cuda" else self._provider
        name = str(model) if isinstance(model, Path) else "the model"
        try:
            session = self._runtime.InferenceSession(
                str(model) if isinstance(model, Path) else model, options, providers=[provider]
            )
        except Exception as error:  # onnxruntime's own exceptions share no base class
            raise UserError(f"onnxruntime cannot load {name}: {_first_words(error)}") from None
        entries = session.get_inputs()
        feed = {entry.name: _example(entry, self._batch, name, shapes.get(entry.name)) for entry in entries}
        return Opened(session, feed)


class CpuRunner:
    """With one thread onnxruntime works in the calling thread."""

    def __init__(self, session: Any, feed: Feed, with_cpu_time: bool) -> None:
        self._session, self._feed, self._with_cpu_time = session, feed, with_cpu_time

    def run(self) -> Reading:
        with _refusing():
            return read_clocks(lambda: self._session.run(None, self._feed), self._with_cpu_time)


class CudaRunner:
    """Inputs and outputs bound to GPU memory; a call ends when the GPU has finished."""

    def __init__(self, session: Any, feed: Feed, index: int) -> None:
        import onnxruntime

        self._session = session
        self._binding = session.io_binding()
        for name, value in feed.items():
            self._binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(value, "cuda", index))
        for output in session.get_outputs():
            self._binding.bind_output(output.name, "cuda", index)

    def run(self) -> Reading:
        with _refusing():
            self._binding.synchronize_inputs()
            return read_clocks(self._run_through, with_cpu_time=False)

    def _run_through(self) -> None:
        self._session.run_with_iobinding(self._binding)
        self._binding.synchronize_outputs()


@contextmanager
def _refusing() -> Iterator[None]:
    """A model that loads may still fail when it runs: zero outputs, an impossible reshape, an index out of range."""
    try:
        yield
    except Exception as error:  # onnxruntime's own exceptions share no base class
        raise UserError(f"onnxruntime cannot run the model: {_first_words(error)}") from error


def _first_words(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _example(entry: Any, batch: int, name: str, given: Shape | None) -> np.ndarray[Any, Any]:
    if entry.type not in _TYPES:
        raise UserError(f"{name} has the input {entry.name!r} of type {entry.type}, which cannot be timed")
    shape = input_shape(f"{name}, input {entry.name!r}", entry.shape, batch, given)
    values = np.random.default_rng(0).random(shape, dtype=np.float64)
    return values.astype(_TYPES[entry.type])


def input_shape(origin: str, dims: Sequence[object] | None, batch: int, given: Shape | None) -> Shape:
    """The shape that an input is timed at: `given`, or as it is fixed, with the batch where the first axis is free.

    `dims` are numbers where they are fixed, None for a tensor of any rank. Other free axes are never guessed.
    """
    known = [None] * len(given or ()) if dims is None else dims
    fixed = [dim if isinstance(dim, int) and dim > 0 else None for dim in known]
    free = [str(axis) for axis, dim in enumerate(fixed) if dim is None and axis > 0]
    if given is None and (free or dims is None):
        what = f"axis {' and '.join(free)}" if free else "its rank"
        raise UserError(f"{origin} leaves {what} free; give the shape that you deploy, as in --shape 1,3,224,224")
    shape = tuple(dim or batch for dim in fixed) if given is None else given
    if len(shape) != len(fixed) or not all(0 < s == (dim or s) for s, dim in zip(shape, fixed, strict=True)):
        takes = ", ".join("any" if dim is None else str(dim) for dim in fixed)
        raise UserError(f"{origin} takes [{takes}], not --shape {','.join(map(str, shape))}")
    return shape


def _gpu_name(index: int) -> str:
    import subprocess

    try:
        names = subprocess.run(
            ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True, check=True
        ).stdout.splitlines()
        return names[index].strip()
    except (OSError, subprocess.CalledProcessError, IndexError):
        return f"gpu{index}"
