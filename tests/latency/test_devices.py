import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

from pipeline.errors import UserError
from pipeline.fingerprint import Fingerprint, fingerprint_from_record, processor_name
from pipeline.latency.devices import open_device
from pipeline.latency.models import make_model
from pipeline.latency.onnx_device import CudaRunner, ShapedFile, input_shape
from pipeline.latency.torch_device import TorchModel
from tests.latency.fakes import FINGERPRINT


def tiny_model(path: Path, shape: list[str | int | None], kind: int = TensorProto.FLOAT) -> Path:
    node = helper.make_node("Identity", ["x"], ["y"])
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info("y", kind, shape)],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


@pytest.mark.parametrize("name", ["gpu", "cpu:1", "cuda:x", "", "CPU"])
def test_unknown_devices_are_refused(name: str) -> None:
    with pytest.raises(UserError, match="use cpu, cuda or cuda:N"):
        open_device(name)


@pytest.mark.parametrize("threads", [0, -1, 10_000])
@pytest.mark.parametrize("backend", ["onnxruntime", "torch"])
def test_impossible_thread_counts_are_refused(threads: int, backend: str) -> None:
    with pytest.raises(UserError, match="threads must be between 1 and"):
        open_device("cpu", threads=threads, backend=backend)


def test_batch_and_backend_are_checked() -> None:
    with pytest.raises(UserError, match="batch"):
        open_device("cpu", batch=0)
    with pytest.raises(UserError, match="onnxruntime or torch"):
        open_device("cpu", backend="jax")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_says_what_to_do() -> None:
    with pytest.raises(UserError, match=r"no CUDAExecutionProvider.*onnxruntime-gpu"):
        open_device("cuda")
    with pytest.raises(UserError, match="torch finds no CUDA"):
        open_device("cuda", backend="torch")


def test_the_fingerprint_says_where_and_how() -> None:
    made = open_device("cpu", threads=1, batch=3).fingerprint
    assert (made.device, made.threads, made.batch) == ("cpu", 1, 3)
    assert (made.runtime, made.provider) == ("onnxruntime", "CPUExecutionProvider")
    assert made.processor == processor_name() != ""
    assert made.cores == len(os.sched_getaffinity(0))
    assert fingerprint_from_record(made.record(), "x") == made


@pytest.mark.parametrize("change", [{"threads": "1"}, {"cores": True}, {"more": 1}, {"processor": None}])
def test_a_damaged_fingerprint_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(UserError, match="the file"):
        fingerprint_from_record({**FINGERPRINT.record(), **change}, "the file")
    with pytest.raises(UserError):
        fingerprint_from_record(None, "the file")
    assert isinstance(FINGERPRINT, Fingerprint)


def test_one_thread_has_a_cpu_clock_that_is_no_longer_than_the_wall_clock(tmp_path: Path) -> None:
    runner = open_device("cpu").load(tiny_model(tmp_path / "m.onnx", [1, 3, 8, 8]))
    readings = [runner.run() for _ in range(20)]
    assert all(reading.wall_ms > 0 and reading.cpu_ms is not None and reading.cpu_ms > 0 for reading in readings)


def test_a_free_first_axis_is_the_batch_and_no_other_is_guessed(tmp_path: Path) -> None:
    device, path = open_device("cpu", batch=5), tiny_model(tmp_path / "m.onnx", ["batch", 3, "height", 8])
    with pytest.raises(UserError, match=r"m\.onnx, input 'x' leaves axis 2 free; .*--shape"):
        device.load(path)
    (value,) = device.load(ShapedFile(path, {"x": (2, 3, 7, 8)}))._feed.values()  # type: ignore[attr-defined]
    assert value.shape == (2, 3, 7, 8) and value.dtype == np.float32
    (value,) = device.load(tiny_model(path, ["batch", 3]))._feed.values()  # type: ignore[attr-defined]
    assert value.shape == (5, 3)


@pytest.mark.parametrize(
    ("dims", "given", "shape"),
    [
        ([None, 3, 8, 8], None, (4, 3, 8, 8)),
        ([2, 3], None, (2, 3)),
        ([], None, ()),
        (["n", 3, "h", "w"], (1, 3, 9, 9), (1, 3, 9, 9)),
        (None, (1, 2), (1, 2)),
        (["n", 3, "h", "w"], None, "leaves axis 2 and 3 free"),
        (None, None, "leaves its rank free"),
        (["n", 3, 8], (1, 3, 9), r"takes \[any, 3, 8\], not --shape 1,3,9"),
        (["n", 3], (1, 3, 9), r"takes \[any, 3\]"),
        (["n", 3, "h"], (1, 3), "takes"),
        (["n", 3], (0, 3), "takes"),
    ],
)
def test_shapes_are_fixed_given_or_refused(dims: Any, given: Any, shape: Any) -> None:
    if isinstance(shape, str):
        with pytest.raises(UserError, match=f"^here {shape}"):
            input_shape("here", dims, 4, given)
    else:
        assert input_shape("here", dims, 4, given) == shape


def test_inputs_of_other_types_are_fed_or_refused(tmp_path: Path) -> None:
    device = open_device("cpu")
    device.load(tiny_model(tmp_path / "i.onnx", [2], TensorProto.INT64)).run()
    with pytest.raises(UserError, match="string"):
        device.load(tiny_model(tmp_path / "s.onnx", [2], TensorProto.STRING))


def test_what_onnxruntime_cannot_load_is_refused() -> None:
    with pytest.raises(UserError, match="onnxruntime cannot load"):
        open_device("cpu").load(b"not a model")


def test_the_torch_backend_times_modules_and_nothing_else(tmp_path: Path) -> None:
    device = open_device("cpu", backend="torch")
    model = make_model(device, torch.nn.Conv2d(1, 1, 1), [torch.rand(1, 1, 4, 4)])
    assert isinstance(model, TorchModel)
    reading = device.load(model).run()
    assert reading.wall_ms > 0 and reading.cpu_ms is not None
    with pytest.raises(UserError, match="not ONNX files"):
        device.load(tmp_path / "m.onnx")


class FakeSession:
    """What onnxruntime's session and binding are asked to do, in order."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def io_binding(self) -> "FakeSession":
        return self

    def get_outputs(self) -> list[Any]:
        return [SimpleNamespace(name="logits")]

    def __getattr__(self, name: str) -> Any:
        return lambda *given: self.calls.append(f"{name} {given[0]}" if given and isinstance(given[0], str) else name)


def test_a_cuda_call_is_bound_to_the_gpu_and_ends_when_the_gpu_has_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    placed: list[tuple[object, ...]] = []
    value = SimpleNamespace(ortvalue_from_numpy=lambda array, *place: placed.append((array.shape, *place)))
    monkeypatch.setattr("onnxruntime.OrtValue", value)
    session = FakeSession()
    runner = CudaRunner(session, {"input": np.zeros((1, 3))}, index=2)
    assert placed == [((1, 3), "cuda", 2)]
    assert session.calls == ["bind_ortvalue_input input", "bind_output logits"]
    reading = runner.run()
    assert session.calls[2:] == ["synchronize_inputs", "run_with_iobinding", "synchronize_outputs"]
    assert reading.wall_ms >= 0 and reading.cpu_ms is None
