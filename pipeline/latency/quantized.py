"""int8 versions of what is timed: static quantization with ranges from random input, for only the speed counts."""

import tempfile
from pathlib import Path

import numpy as np

from pipeline.quantized_file import quantize_file


def quantize_bytes(model: bytes, shape: tuple[int, ...]) -> bytes:
    """An ONNX file in int8, as deployed files are quantized."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "fp32.onnx"), Path(folder, "int8.onnx")
        source.write_bytes(model)
        quantize_file(source, target, [np.random.default_rng(0).random(shape).astype(np.float32)])
        return target.read_bytes()
