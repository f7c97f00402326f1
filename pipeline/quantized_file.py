"""ONNX file → the same file in int8: the one way that tables time and exports ship."""

import logging
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def quantize_file(source: Path, target: Path, batches: Iterable[NDArray[np.generic]]) -> None:
    """`source` with int8 weights per channel and QDQ activations, their ranges from batches of `source`'s input."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    with tempfile.TemporaryDirectory() as folder, _quiet():
        prepared = Path(folder, "prepared.onnx")
        quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
        quantize_static(
            str(prepared),
            str(target),
            _Batches(batches),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            # 7-bit weights: without VNNI, sums of products of 8-bit values saturate in 16 bits
            reduce_range=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )


class _Batches:
    """What onnxruntime calls a calibration data reader."""

    def __init__(self, batches: Iterable[NDArray[np.generic]]) -> None:
        self._batches = iter(batches)

    def get_next(self) -> dict[str, Any] | None:
        batch = next(self._batches, None)
        return None if batch is None else {"input": batch}

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
