"""int8: static quantization of a deployed file, and the decision whether it is worth shipping."""

import logging
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import onnx
from torch import Tensor

from pipeline.deploy.measured import Measured


def quantize(source: Path, target: Path, calibration: Iterable[Tensor]) -> None:
    """`source` with int8 weights per channel and QDQ activations, their ranges from batches of `source`'s input."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    with tempfile.TemporaryDirectory() as folder, _quiet():
        prepared, quantized = Path(folder, "prepared.onnx"), Path(folder, "quantized.onnx")
        quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
        quantize_static(
            str(prepared),
            str(quantized),
            _Batches(calibration),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            # 7-bit weights: without VNNI, sums of products of 8-bit values saturate in 16 bits
            reduce_range=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )
        model = onnx.load(quantized)
    original = onnx.load(source, load_external_data=False)
    model.ClearField("metadata_props")
    model.metadata_props.extend(original.metadata_props)
    model.ir_version = original.ir_version
    del model.graph.value_info[:]
    target.write_bytes(model.SerializeToString(deterministic=True))


class _Batches:
    """What onnxruntime calls a calibration data reader."""

    def __init__(self, batches: Iterable[Tensor]) -> None:
        self._batches = iter(batches)

    def get_next(self) -> dict[str, Any] | None:
        batch = next(self._batches, None)
        return None if batch is None else {"input": batch.numpy()}

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


class Rating(NamedTuple):
    """What a file is worth: accuracy on the test set, latency on the target."""

    accuracy: float
    measured: Measured


class Decision(NamedTuple):
    """Whether the int8 file is shipped, and why."""

    shipped: bool
    reason: str


def decide(fp32: Rating, int8: Rating, percentile: int, max_accuracy_loss: float) -> Decision:
    """Ship int8 only if it is faster by more than the noise floor and loses no more accuracy than allowed."""
    before_ms, after_ms = fp32.measured.at(percentile), int8.measured.at(percentile)
    noise = max(fp32.measured.noise_floor, int8.measured.noise_floor)
    loss = fp32.accuracy - int8.accuracy
    times = f"{after_ms:.3g} ms against {before_ms:.3g} ms at p{percentile}"
    if after_ms >= before_ms:
        return Decision(False, f"not faster: {times}")
    if after_ms >= before_ms * (1 - noise):
        return Decision(False, f"not faster beyond the noise floor of {noise:.1%}: {times}")
    if not loss <= max_accuracy_loss:
        return Decision(False, f"loses {loss:.2%} accuracy, allowed are {max_accuracy_loss:.2%}")
    return Decision(True, f"faster ({times}) at an accuracy loss of {loss:.2%}")
