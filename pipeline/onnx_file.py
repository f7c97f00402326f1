"""torch module → one ONNX file: a quick one for timing, and the one that is deployed."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import onnx
import torch
from torch import Tensor, nn

# The opset that torch's exporter writes without conversion, the IR version that came with it,
# and the first onnxruntime that knows both.
OPSET, IR_VERSION, OLDEST_ONNXRUNTIME = 20, 9, "1.17"

INPUT, OUTPUT, BATCH = "input", "logits", "batch"


def write_quick(module: nn.Module, inputs: Sequence[Tensor], path: Path) -> None:
    """The module in evaluation mode at the shapes of `inputs`: for timing, in a fraction of a second."""
    module.eval()
    with _silent():
        torch.onnx.export(
            module,
            tuple(inputs),
            str(path),
            input_names=[f"input{i}" if i else "input" for i in range(len(inputs))],
            output_names=["output"],
            dynamo=False,
        )


def write_deployed(module: nn.Module, example: Tensor, path: Path, metadata: Mapping[str, str]) -> None:
    """The module as it is deployed: any batch size, nothing of this machine in it; same weights, same bytes.

    `example` is one image, [1, channels, height, width].
    """
    with _silent():
        program = torch.onnx.export(
            module,
            # torch.export takes a batch of one for a constant
            (example.expand(2, *example.shape[1:]),),
            input_names=[INPUT],
            output_names=[OUTPUT],
            dynamic_shapes=({0: torch.export.Dim(BATCH)},),
            opset_version=OPSET,
            external_data=False,
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    model = program.model_proto
    model.ir_version = IR_VERSION
    _strip(model)
    onnx.helper.set_model_props(model, dict(sorted(metadata.items())))
    path.write_bytes(model.SerializeToString(deterministic=True))


def _strip(model: onnx.ModelProto) -> None:
    """Take out what the exporter notes about our source files, and names that count its own steps."""
    graph = model.graph
    graph.name = "network"
    del graph.value_info[:]
    for noted in (graph, *graph.node, *graph.input, *graph.output, *graph.initializer):
        noted.ClearField("metadata_props")
        noted.ClearField("doc_string")
    model.ClearField("doc_string")
    for number, node in enumerate(graph.node):
        node.name = f"{node.op_type}_{number}"


@contextmanager
def _silent() -> Iterator[None]:
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        yield
