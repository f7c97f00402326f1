"""Teachers made for tests, and opened: ONNX files of one linear layer, checkpoints of timm's smallest networks."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import timm
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from pipeline.artifacts.taught import TaughtFacts, TaughtTeacher
from pipeline.artifacts.tensors import pack
from pipeline.stages.context import Context
from pipeline.stages.teachers import open_teacher
from pipeline.training.step import seed_all
from pipeline.training.teacher import Teacher
from tests.training.material import CPU

SMALLEST = "test_resnet"  # 375,000 weights; conv1.0 takes the image, fc is its head
SIDE = 32
NAMES = tuple(map(str, range(10)))


def write_onnx(
    path: Path,
    shape: Sequence[str | int] | None = ("batch", 1, 8, 8),
    classes: int = 10,
    weights: np.ndarray | None = None,
    labels: Sequence[str] = (),
    outputs: int = 1,
    kind: int = TensorProto.FLOAT,
    inner: Sequence[int] = (),
    outer: Sequence[int] = (),
) -> Path:
    """logits = W · pixels; with `shape` None the file does not state its input's.

    `inner` and `outer` reshape the pixels and the logits.
    """
    pixels = int(np.prod([one for one in (shape or (1, 1, 8, 8))[1:] if isinstance(one, int)]))
    if weights is None:
        weights = np.random.default_rng(0).normal(size=(pixels, classes)).astype(np.float32)
    nodes = [
        helper.make_node("Cast", ["image"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("Flatten", ["floats"], ["flat"]),
        helper.make_node("Reshape", ["flat", "inner"], ["reshaped"]),
        helper.make_node("MatMul", ["reshaped", "w"], ["product"]),
        helper.make_node("Reshape", ["product", "outer"], ["logits"]),
        *(helper.make_node("Identity", ["logits"], [f"again{k}"]) for k in range(1, outputs)),
    ]
    names = ["logits", *(f"again{k}" for k in range(1, outputs))]
    graph = helper.make_graph(
        nodes,
        "teacher",
        [helper.make_tensor_value_info("image", kind, shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names],
        [
            numpy_helper.from_array(weights, "w"),
            numpy_helper.from_array(np.array(inner or (-1, pixels), np.int64), "inner"),
            numpy_helper.from_array(np.array(outer or (-1, classes), np.int64), "outer"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    if labels:
        onnx.helper.set_model_props(model, {"labels": json.dumps(list(labels))})
    path.write_bytes(model.SerializeToString())
    return path


def make_timm(classes: int, channels: int = 1, seed: int = 3) -> nn.Module:
    seed_all(seed)
    network: nn.Module = timm.create_model(SMALLEST, num_classes=classes, in_chans=channels)
    return network


def write_timm(path: Path, classes: int = 10, channels: int = 1, **altered: Any) -> Path:
    """A checkpoint as a user has it: tensors by timm's names, no word on what they are of."""
    state = {**make_timm(classes, channels).state_dict(), **altered}
    path.write_bytes(pack(state, {"format": "pt"}))
    return path


def opened(context: Context) -> Teacher:
    teacher = open_teacher(context, CPU)
    assert teacher is not None
    return teacher


def taught(context: Context, source: str, labels: tuple[str, ...] = NAMES) -> TaughtTeacher:
    facts = TaughtFacts(source=source, architecture=SMALLEST, side=SIDE, mean=(0.5,), std=(0.5,), labels=labels)
    return TaughtTeacher(facts, make_timm(10, 1).state_dict())
