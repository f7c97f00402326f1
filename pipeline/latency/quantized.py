"""int8 versions of what is timed: static quantization with ranges from random input, for only the speed counts."""

import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np


def quantize_bytes(model: bytes, shape: tuple[int, ...]) -> bytes:
    """An ONNX file with int8 weights per channel and QDQ activations, as deployed files are quantized."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    with tempfile.TemporaryDirectory() as folder, _quiet():
        source, prepared, target = (str(Path(folder, name)) for name in ("fp32.onnx", "prepared.onnx", "int8.onnx"))
        Path(source).write_bytes(model)
        quant_pre_process(source, prepared, skip_symbolic_shape=True)
        quantize_static(
            prepared,
            target,
            _RandomInput(shape),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            reduce_range=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )
        return Path(target).read_bytes()


class _RandomInput:
    """What onnxruntime calls a calibration data reader."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._left = [{"input": np.random.default_rng(0).random(shape).astype(np.float32)}]

    def get_next(self) -> dict[str, Any] | None:
        return self._left.pop() if self._left else None

    def __len__(self) -> int:
        return 1


@contextmanager
def _quiet() -> Iterator[None]:
    """onnxruntime.quantization reports its progress through the root logger."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
