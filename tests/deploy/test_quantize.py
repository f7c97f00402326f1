import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper

from pipeline.deploy.evaluation import Session
from pipeline.deploy.graph import read_checked, read_metadata
from pipeline.deploy.quantize import Rating, decide, quantize
from pipeline.latency.budget_rule import Measured
from pipeline.latency.statistics import Interval
from tests.deploy.conftest import make_images


def rating(accuracy: float, p50_ms: float, noise: float = 0.01, p99_ms: float = 9.0) -> Rating:
    return Rating(accuracy, Measured(p50_ms, 5.0, p99_ms, noise))


UNSURE = Rating(0.95, Measured(1.0, 5.0, 6.0, 0.01, 1.0, None, Interval(3.0, 9.0)))


@pytest.mark.parametrize(
    ("fp32", "int8", "percentile", "shipped", "why"),
    [
        (rating(0.95, 2.0), rating(0.945, 1.0), 50, True, "faster"),
        (rating(0.95, 2.0), rating(0.97, 1.0), 50, True, "faster"),
        (rating(0.95, 2.0), rating(0.95, 2.0), 50, False, "not faster"),
        (rating(0.95, 2.0), rating(0.95, 3.0), 50, False, "not faster"),
        (rating(0.95, 2.0), rating(0.95, 1.99), 50, False, "noise floor of 1.0%"),
        (rating(0.95, 2.0, 0.6), rating(0.95, 1.0), 50, False, "noise floor of 60.0%"),
        (rating(0.95, 2.0), rating(0.939, 1.0), 50, False, "loses 1.10% accuracy, allowed are 1.00%"),
        (rating(0.95, 2.0), rating(float("nan"), 1.0), 50, False, "accuracy"),
        (rating(0.95, 2.0), rating(0.95, 3.0, p99_ms=4.0), 99, True, "faster"),
        (rating(0.95, 2.0), rating(0.95, 1.0, p99_ms=12.0), 99, False, "not faster"),
        (rating(0.95, 2.0, p99_ms=9.0), UNSURE, 99, False, "noise floor of 50.0%"),
        (rating(0.95, 2.0, p99_ms=9.0), UNSURE, 50, True, "faster"),
    ],
)
def test_int8_is_shipped_only_if_faster_and_accurate(fp32, int8, percentile, shipped, why):
    decision = decide(fp32, int8, percentile, max_accuracy_loss=0.01)
    assert decision.shipped is shipped and why in decision.reason


def test_static_quantization_per_channel(trained, model_file, tmp_path):
    images = torch.stack([image for image, _ in make_images(trained, 32)])
    batches = [batch.to(torch.float32) / 255 for batch in images.split(16)]
    for name in ("a.onnx", "b.onnx"):
        quantize(model_file, tmp_path / name, batches)
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    model = read_checked(tmp_path / "a.onnx")
    assert read_metadata(model) == read_metadata(onnx.load(model_file))
    operations = [node.op_type for node in model.graph.node]
    assert "QuantizeLinear" in operations and "DequantizeLinear" in operations
    weights = [t for t in model.graph.initializer if t.data_type == onnx.TensorProto.INT8 and len(t.dims) == 4]
    scales = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    per_channel = [node for node in model.graph.node if node.input[0] in {w.name for w in weights}]
    assert len(weights) == sum(node.op_type == "Conv" for node in model.graph.node)
    assert all(scales[node.input[1]].shape == (scales[node.input[0]].shape[0],) for node in per_channel)
    exact, rounded = Session(model_file).logits(images), Session(tmp_path / "a.onnx").logits(images)
    assert np.corrcoef(exact.flatten(), rounded.flatten())[0, 1] > 0.97
