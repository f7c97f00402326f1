import numpy as np
import onnx
import onnxruntime
import torch

from pipeline.latency.models import onnx_bytes
from pipeline.latency.probes import SiteCopies, example_input, span_read
from pipeline.latency.quantized import quantize_bytes
from pipeline.space.sites import Site


def test_a_probe_is_quantized_and_still_computes_the_same_within_8_bits() -> None:
    torch.manual_seed(0)
    site = Site("sep_conv_3x3", 16, 16, 1, 8)
    example = example_input(span_read(site), 1)
    fp32 = onnx_bytes(SiteCopies(site, 2), [example])
    int8 = quantize_bytes(fp32, tuple(example.shape))
    assert any(node.op_type == "QuantizeLinear" for node in onnx.load_from_string(int8).graph.node)
    assert any(tensor.data_type == onnx.TensorProto.INT8 for tensor in onnx.load_from_string(int8).graph.initializer)
    outputs = [
        onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, {"input": example.numpy()})[0]
        for model in (fp32, int8)
    ]
    scale = np.abs(outputs[0]).max()
    assert 0 < np.abs(outputs[0] - outputs[1]).max() < 0.2 * scale
