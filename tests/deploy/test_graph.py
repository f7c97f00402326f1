import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from pipeline.deploy.graph import count_graph_macs, read_checked


def write_model(path, spatial="fixed"):
    """conv 3→8 (3×3, stride 2), depthwise 5×5 with dilation, global mean, Gemm 8→4."""
    weights = {"a": (8, 3, 3, 3), "b": (8, 1, 5, 5), "c": (4, 8)}
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["p"], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["p", "b"], ["q"], group=8, dilations=[2, 2], pads=[4, 4, 4, 4]),
        helper.make_node("GlobalAveragePool", ["q"], ["r"]),
        helper.make_node("Flatten", ["r"], ["s"]),
        helper.make_node("Gemm", ["s", "c"], ["y"], transB=1),
    ]
    size = 10 if spatial == "fixed" else "side"
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, size, size])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])],
        [numpy_helper.from_array(np.zeros(shape, np.float32), name) for name, shape in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)


def test_macs_by_hand(tmp_path):
    write_model(tmp_path / "m.onnx")
    expected = 8 * 3 * 9 * 5 * 5 + 8 * 25 * 5 * 5 + 8 * 4
    assert count_graph_macs(read_checked(tmp_path / "m.onnx")) == expected


def test_macs_of_an_open_size_are_refused(tmp_path):
    write_model(tmp_path / "m.onnx", spatial="open")
    with pytest.raises(ValueError, match="not fixed"):
        count_graph_macs(read_checked(tmp_path / "m.onnx"))


def test_damaged_files_do_not_pass(tmp_path):
    write_model(tmp_path / "m.onnx")
    content = (tmp_path / "m.onnx").read_bytes()
    for damaged in (b"", content[: len(content) // 2], b"not a model"):
        (tmp_path / "m.onnx").write_bytes(damaged)
        with pytest.raises(Exception):  # noqa: B017 - protobuf and onnx raise different families
            read_checked(tmp_path / "m.onnx")
