"""ONNX files for `pipeline bench`: sound ones, ones that do not load, and ones that load and fail when they run."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.campaign.case import Case, Must
from tests.campaign.damage import draw_damage

_REFUSED: Must = "be refused"
Build = Callable[[], bytes]


def model(
    nodes: Sequence[onnx.NodeProto],
    shape: Sequence[int | str | None] | None = (1, 4),
    constants: Sequence[tuple[str, object]] = (),
    kind: int = TensorProto.FLOAT,
    outputs: Sequence[str] = ("y",),
    opset: int = 17,
    inputs: bool = True,
) -> bytes:
    """A small graph from x to y."""
    graph = helper.make_graph(
        list(nodes),
        "small",
        [helper.make_tensor_value_info("x", kind, shape)] if inputs else [],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return bytes(made.SerializeToString())


def _node(kind: str, inputs: Sequence[str] = ("x",), **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(kind, list(inputs), ["y"], **attributes)


def _reshape(*sizes: int) -> Build:
    return partial(model, [_node("Reshape", ("x", "s"))], ("batch", 4), [("s", np.array(sizes, np.int64))])


def _gather(index: int) -> Build:
    return partial(model, [_node("Gather", ("x", "i"))], ("batch", 4), [("i", np.array(index, np.int64))])


def _external() -> bytes:
    made = onnx.load_from_string(model([_node("Add", ("x", "w"))], constants=[("w", np.ones(4, np.float32))]))
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../../../etc/passwd")
    return bytes(made.SerializeToString())


_WIDE = np.ones((4, 4), np.float32)
_MODELS: dict[str, tuple[Build, tuple[str, ...], Must]] = {
    "sound": (partial(model, [_node("Relu")]), (), "be done"),
    "sound, of its own batch": (partial(model, [_node("Relu")], (8, 4)), (), "be done"),
    "free axes": (partial(model, [_node("Relu")], ("n", "c")), (), _REFUSED),
    "any rank": (partial(model, [_node("Relu")], None), (), _REFUSED),
    "an axis of 0": (partial(model, [_node("Relu")], (1, 0)), (), _REFUSED),
    "an axis of -1": (partial(model, [_node("Relu")], (1, -1)), (), _REFUSED),
    "a giant input": (partial(model, [_node("Relu")], (1, 2**40)), (), _REFUSED),
    "a giant input by flag": (partial(model, [_node("Relu")], ("n", "c")), ("--shape", "1,999999999999"), _REFUSED),
    "a shape beyond 64 bits": (partial(model, [_node("Relu")], ("n", "c")), ("--shape", f"1,{2**70}"), _REFUSED),
    "a giant output": (
        partial(model, [_node("Expand", ("x", "s"))], (1, 1), [("s", np.array([2**20, 2**20], np.int64))]),
        (),
        _REFUSED,
    ),
    "an impossible reshape": (_reshape(3, 5), (), _REFUSED),
    "a negative reshape": (_reshape(-2, 5), (), _REFUSED),
    "an index out of range": (_gather(9), ("--batch", "1"), _REFUSED),
    "an unknown operator": (partial(model, [_node("Nonsense")]), (), _REFUSED),
    "a missing input": (partial(model, [_node("Add", ("x", "nowhere"))]), (), _REFUSED),
    "shapes that do not multiply": (
        partial(model, [_node("MatMul", ("x", "w"))], (1, 3), [("w", _WIDE)]),
        (),
        _REFUSED,
    ),
    "shapes that do not multiply at run time": (
        partial(model, [_node("MatMul", ("x", "w"))], ("n", "c"), [("w", _WIDE)]),
        ("--shape", "1,3"),
        _REFUSED,
    ),
    "an output that is nobody's": (partial(model, [_node("Relu")], outputs=("z",)), (), _REFUSED),
    "no output": (partial(model, [_node("Relu")], outputs=()), (), _REFUSED),
    "no node": (partial(model, []), (), _REFUSED),
    "an opset of the future": (partial(model, [_node("Relu")], opset=9999), (), _REFUSED),
    "an input of text": (partial(model, [_node("Identity")], kind=TensorProto.STRING), (), _REFUSED),
    "an input of nothing": (partial(model, [_node("Identity")], kind=TensorProto.UNDEFINED), (), _REFUSED),
    "an input of complex numbers": (partial(model, [_node("Identity")], kind=TensorProto.COMPLEX64), (), _REFUSED),
    "no input": (
        partial(model, [_node("Relu", ("c",))], constants=[("c", np.ones(4, np.float32))], inputs=False),
        (),
        "end well",
    ),
    "weights elsewhere": (_external, (), _REFUSED),
    "a division by a zero axis": (
        partial(model, [_node("ReduceMean", axes=[7])], ("n", 4), opset=13),
        (),
        _REFUSED,
    ),
    "a convolution larger than its image": (
        partial(model, [_node("Conv", ("x", "w"))], ("n", 1, 2, 2), [("w", np.ones((1, 1, 5, 5), np.float32))]),
        (),
        _REFUSED,
    ),
    "text": (lambda: b"not a model", (), _REFUSED),
    "nothing": (lambda: b"", (), _REFUSED),
    "zeros": (lambda: bytes(1000), (), _REFUSED),
    "a pickle": (lambda: b"\x80\x04\x95\x00\x00\x00", (), _REFUSED),
}


def draw(random: Random) -> Case:
    """A model with one thing about it, or the exported one, spoiled."""
    if random.random() < 0.25:
        name, damage = draw_damage(random)
        arguments = ("bench", "exports/default/model.onnx")
        return Case("models", f"exported, {name}", arguments, lambda project: damage(project / arguments[1]))
    names = list(_MODELS)
    name = random.choices(names, [0.2 if _MODELS[one][2] == "be done" else 1.0 for one in names])[0]
    build, flags, must = _MODELS[name]
    return Case("models", name, ("bench", "m.onnx", *flags), partial(_place, build=build), must)


def _place(project: Path, build: Build) -> None:
    (project / "m.onnx").write_bytes(build())
