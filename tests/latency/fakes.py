"""A device with a scripted clock: the time of a module is a formula of its parameters, an oracle for every figure."""

from collections.abc import Callable, Iterator
from itertools import repeat
from pathlib import Path
from typing import Any

from pipeline.fingerprint import Fingerprint
from pipeline.latency.onnx_device import ShapedFile
from pipeline.latency.statistics import Reading

CALL_MS, PARAMETER_MS = 0.25, 0.001

FINGERPRINT = Fingerprint(
    device="cpu",
    processor="Fake 1",
    flags_hash="0123456789ab",
    cores=2,
    threads=1,
    runtime="onnxruntime",
    runtime_version="1.0",
    provider="CPUExecutionProvider",
    batch=1,
)


def module_ms(module: Any) -> float:
    """One call: an overhead, and a fixed time for every parameter."""
    return CALL_MS + PARAMETER_MS * sum(parameter.numel() for parameter in module.parameters())


class FakeRunner:
    def __init__(self, device: "FakeDevice", name: str, cost_ms: float) -> None:
        self.device, self.name, self.cost_ms = device, name, cost_ms

    def run(self) -> Reading:
        self.device.log.append(self.name)
        slowdown = next(self.device.slowdowns)
        return Reading(slowdown * self.cost_ms, slowdown * self.cost_ms if self.device.cpu_clock else None)


class FakeDevice:
    """Takes modules (time by parameters), paths (time by size in bytes) and numbers (that many ms)."""

    takes = "torch"

    def __init__(
        self,
        slowdowns: Iterator[float] | None = None,
        fingerprint: Fingerprint = FINGERPRINT,
        cost: Callable[[Any], float] = module_ms,
        cpu_clock: bool = True,
    ) -> None:
        self.slowdowns = slowdowns or repeat(1.0)
        self.fingerprint, self.cost, self.cpu_clock = fingerprint, cost, cpu_clock
        self.log: list[str] = []

    def load(self, model: Any) -> FakeRunner:
        model = model.path if isinstance(model, ShapedFile) else model
        if isinstance(model, float):
            return FakeRunner(self, str(model), model)
        if isinstance(model, Path):
            return FakeRunner(self, model.name, float(model.stat().st_size))
        return FakeRunner(self, type(model.module).__name__, self.cost(model.module))
