"""A device driven by torch itself (`--backend torch`): CUDA events on a GPU, the clocks on a CPU."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from pipeline.errors import UserError
from pipeline.fingerprint import Fingerprint, available_cores, processor_flags_hash, processor_name
from pipeline.latency.statistics import Reading, read_clocks


class TorchModel(NamedTuple):
    """A module and example inputs, which only this device can time."""

    module: nn.Module
    inputs: Sequence[Tensor]


class TorchDevice:
    """Eager torch; the figures are those of torch, not of an exported model."""

    takes = "torch"

    def __init__(self, kind: str, index: int, threads: int, batch: int) -> None:
        if kind == "cuda" and not torch.cuda.is_available():
            raise UserError("torch finds no CUDA here; use --device cpu or --backend onnxruntime")
        if kind == "cuda" and index >= torch.cuda.device_count():
            raise UserError(f"there is no cuda:{index}; this machine has {torch.cuda.device_count()} GPUs")
        if not 1 <= threads <= available_cores():
            raise UserError(
                f"threads must be between 1 and the {available_cores()} cores of this machine, not {threads}"
            )
        self._kind, self._threads, self._batch = kind, threads, batch
        self._place = torch.device(kind, index) if kind == "cuda" else torch.device("cpu")

    @property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint(
            device=self._kind,
            processor=torch.cuda.get_device_name(self._place) if self._kind == "cuda" else processor_name(),
            flags_hash=processor_flags_hash(),
            cores=available_cores(),
            threads=self._threads,
            runtime="torch",
            runtime_version=str(torch.__version__),
            provider="cuda" if self._kind == "cuda" else "cpu",
            batch=self._batch,
        )

    def load(self, model: object) -> "_EventRunner | _ClockRunner":
        if not isinstance(model, TorchModel):
            raise UserError("--backend torch times networks of a space, not ONNX files; use --backend onnxruntime")
        module = model.module.eval().to(self._place)
        inputs = [x.to(self._place) for x in model.inputs]
        if self._kind == "cuda":
            return _EventRunner(module, inputs)
        return _ClockRunner(module, inputs, self._threads)


class _EventRunner:
    """Time on the GPU's own clock, between two events in its stream."""

    def __init__(self, module: nn.Module, inputs: list[Tensor]) -> None:
        self._module, self._inputs = module, inputs
        self._start = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        self._end = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]

    @torch.inference_mode()
    def run(self) -> Reading:
        self._start.record()
        self._module(*self._inputs)
        self._end.record()
        self._end.synchronize()
        return Reading(self._start.elapsed_time(self._end), None)


class _ClockRunner:
    """Wall clock, and CPU time with one thread."""

    def __init__(self, module: nn.Module, inputs: list[Tensor], threads: int) -> None:
        self._module, self._inputs, self._threads = module, inputs, threads

    @torch.inference_mode()
    def run(self) -> Reading:
        before = torch.get_num_threads()
        torch.set_num_threads(self._threads)
        try:
            return read_clocks(lambda: self._module(*self._inputs), with_cpu_time=self._threads == 1)
        finally:
            torch.set_num_threads(before)
