"""Devices by name."""

import re

from pipeline.errors import UserError
from pipeline.latency.measure import Device

_NAME = re.compile(r"(cpu|cuda)(?::(\d+))?")
BACKENDS = ("onnxruntime", "torch")


def open_device(name: str, threads: int = 1, batch: int = 1, backend: str = "onnxruntime") -> Device:
    """The device `cpu`, `cuda` or `cuda:N`, driven by onnxruntime or by torch itself."""
    match = _NAME.fullmatch(name)
    if not match or (match[1] == "cpu" and match[2]):
        raise UserError(f"unknown device {name!r}; use cpu, cuda or cuda:N")
    if batch < 1:
        raise UserError(f"batch must be at least 1, not {batch}")
    kind, index = match[1], int(match[2] or 0)
    if backend == "torch":
        from pipeline.latency.torch_device import TorchDevice

        return TorchDevice(kind, index, threads, batch)
    if backend == "onnxruntime":
        from pipeline.latency.onnx_device import OnnxDevice

        return OnnxDevice(kind, index, threads, batch)
    raise UserError(f"unknown backend {backend!r}; use {' or '.join(BACKENDS)}")
