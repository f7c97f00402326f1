"""What an ONNX file says about itself: its weights, and its multiply-adds."""

from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

Array = np.ndarray[Any, np.dtype[Any]]


def read_checked(path: Path) -> onnx.ModelProto:
    """The model with the shapes of all values; raises if the file is damaged or a shape cannot be inferred."""
    model = onnx.load(path, load_external_data=False)
    onnx.checker.check_model(model, full_check=True)
    return onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)


def read_metadata(model: onnx.ModelProto) -> dict[str, str]:
    return {prop.key: prop.value for prop in model.metadata_props}


def float_initializers(model: onnx.ModelProto) -> dict[str, Array]:
    """The weights of the graph by name; single numbers that the exporter wrote as constants are not among them."""
    return {
        tensor.name: numpy_helper.to_array(tensor)
        for tensor in model.graph.initializer
        if tensor.data_type == onnx.TensorProto.FLOAT and len(tensor.dims)
    }


def has_side_data(model: onnx.ModelProto) -> bool:
    """Whether weights lie outside the file."""
    return any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in model.graph.initializer)


def count_graph_macs(model: onnx.ModelProto) -> int:
    """Multiply-adds of convolutions and linear layers for one image, from a model with inferred shapes."""
    weights = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    shapes = {value.name: _shape(value) for value in (*model.graph.value_info, *model.graph.output)}
    return sum(_node_macs(node, weights, shapes) for node in model.graph.node)


def _node_macs(
    node: onnx.NodeProto, weights: dict[str, tuple[int, ...]], shapes: dict[str, tuple[int | None, ...]]
) -> int:
    if node.op_type == "Conv":
        spatial = shapes[node.output[0]][2:]
        if any(size is None for size in spatial):
            raise ValueError(f"the size of {node.output[0]} is not fixed")
        return prod(weights[node.input[1]]) * prod(size for size in spatial if size is not None)
    if node.op_type in ("Gemm", "MatMul"):
        return prod(weights[node.input[1]])
    return 0


def _shape(value: onnx.ValueInfoProto) -> tuple[int | None, ...]:
    return tuple(dim.dim_value if dim.HasField("dim_value") else None for dim in value.type.tensor_type.shape.dim)


def traces(model: onnx.ModelProto) -> Iterator[str]:
    """Notes of the exporter that may hold paths of the machine it ran on."""
    graph = model.graph
    for part in (graph, *graph.node, *graph.input, *graph.output, *graph.initializer):
        if part.doc_string or part.metadata_props:
            yield part.name
