"""int8: static quantization of a deployed file, and the decision whether to ship it."""

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import onnx
from torch import Tensor

from pipeline.latency.budget_rule import Measured
from pipeline.quantized_file import quantize_file


def quantize(source: Path, target: Path, calibration: Iterable[Tensor]) -> None:
    """`source` in int8, with its metadata, in bytes that depend on nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        quantized = Path(folder, "quantized.onnx")
        quantize_file(source, quantized, (batch.numpy() for batch in calibration))
        model = onnx.load(quantized)
    original = onnx.load(source, load_external_data=False)
    model.ClearField("metadata_props")
    model.metadata_props.extend(original.metadata_props)
    model.ir_version = original.ir_version
    del model.graph.value_info[:]
    target.write_bytes(model.SerializeToString(deterministic=True))


class Rating(NamedTuple):
    """How good a file is: accuracy on the test set, latency on the target."""

    accuracy: float
    measured: Measured


class Decision(NamedTuple):
    """Whether the int8 file is shipped, and why."""

    shipped: bool
    reason: str


def decide(fp32: Rating, int8: Rating, percentile: int, max_accuracy_loss: float) -> Decision:
    """Ship int8 only if it is faster by more than the noise floor and loses no more accuracy than allowed."""
    before_ms, after_ms = fp32.measured.at(percentile), int8.measured.at(percentile)
    noise = max(rating.measured.noise_at(percentile) for rating in (fp32, int8))
    loss = fp32.accuracy - int8.accuracy
    times = f"{after_ms:.3g} ms against {before_ms:.3g} ms at p{percentile}"
    if after_ms >= before_ms:
        return Decision(False, f"not faster: {times}")
    if after_ms >= before_ms * (1 - noise):
        return Decision(False, f"not faster beyond the noise floor of {noise:.1%}: {times}")
    if not loss <= max_accuracy_loss:
        return Decision(False, f"loses {loss:.2%} accuracy, allowed are {max_accuracy_loss:.2%}")
    return Decision(True, f"faster ({times}) at an accuracy loss of {loss:.2%}")
