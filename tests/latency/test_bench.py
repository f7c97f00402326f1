import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from onnx import TensorProto, helper

from pipeline.errors import UserError
from pipeline.latency.bench import Comparison, bench_models, compare_models
from pipeline.latency.devices import open_device
from pipeline.latency.measure import Effort
from pipeline.latency.statistics import Interval
from pipeline.latency.target import TargetMachine
from pipeline.onnx_file import write_quick
from tests.latency.fakes import FakeDevice

EFFORT = Effort(rounds=2, calls=3, extra_rounds=0)


@pytest.fixture
def machine() -> TargetMachine:
    return TargetMachine(FakeDevice(), effort=EFFORT)  # a file takes as long as it is large


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    write_quick(torch.nn.Conv2d(3, 4, 3), [torch.rand(1, 3, 8, 8)], path)
    return path


def with_input(path: Path, *shape: Any, inputs: int = 1) -> Path:
    """The file with other axes of its inputs."""
    values = [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, list(shape)) for i in range(inputs)]
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    node = helper.make_node("Sum", [value.name for value in values], ["y"])
    graph = helper.make_graph([node], "g", values, [out])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def test_a_real_file_is_timed(model: Path) -> None:
    (found,) = bench_models(TargetMachine(open_device("cpu"), effort=EFFORT), [model])
    record = found.record()
    assert 0 < record["fast_ms"] <= record["p50_ms"] <= record["p95_ms"] <= record["p99_ms"]
    assert (record["threads"], record["batch"], record["count"]) == (1, 1, 6)
    assert {"noise_floor", "warm_up", "device", "provider", "model", "raw_p50_ms", "p95_interval_ms"} <= set(record)
    assert json.loads(json.dumps(record))["shape"] == {"input": [1, 3, 8, 8]}


def test_free_axes_are_refused_and_a_given_shape_is_used_and_printed(tmp_path: Path) -> None:
    path = with_input(tmp_path / "free.onnx", "batch", 3, "height", "width")
    machine = TargetMachine(open_device("cpu"), effort=EFFORT)
    with pytest.raises(UserError, match="input 'x0' leaves axis 2 and 3 free"):
        bench_models(machine, [path])
    for text in ("2,3,12,16", "2x3x12x16", "x0=2,3,12,16"):
        (found,) = bench_models(machine, [path], [text])
        assert (found.file.shapes, found.batch) == ({"x0": (2, 3, 12, 16)}, 2)


@pytest.mark.parametrize(
    ("inputs", "shape", "sentence"),
    [
        (1, "1,3,12", "takes"),
        (1, "1,4,12,12", r"takes \[any, 3, any, any\], not --shape 1,4,12,12"),
        (1, "big", "is not a shape"),
        (1, "1,3,12,-4", "takes"),
        (1, "y=1,3,12,12", "no input 'y', only x0"),
        (2, "1,3,12,12", "has the inputs x0, x1; say which one: --shape NAME=1,3,12,12"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(
    machine: TargetMachine, tmp_path: Path, inputs: int, shape: str, sentence: str
) -> None:
    path = with_input(tmp_path / "free.onnx", "batch", 3, "height", "width", inputs=inputs)
    with pytest.raises(UserError, match=sentence):
        bench_models(machine, [path], [shape])


def test_a_fixed_batch_is_labelled_as_it_is(tmp_path: Path) -> None:
    machine = TargetMachine(open_device("cpu", batch=2), effort=EFFORT)
    fixed, free = with_input(tmp_path / "8.onnx", 8, 4), with_input(tmp_path / "n.onnx", "n", 4)
    assert [found.batch for found in bench_models(machine, [fixed, free])] == [8, 2]


def test_the_ratio_of_two_files_has_an_interval_and_a_verdict(model: Path, tmp_path: Path) -> None:
    twice = tmp_path / "twice.onnx"
    loaded = onnx.load(model)
    loaded.doc_string = "x" * (2 * model.stat().st_size - model.stat().st_size - 3)
    twice.write_bytes(loaded.SerializeToString())
    device = FakeDevice()
    comparison = compare_models(TargetMachine(device, effort=replace(EFFORT, rounds=10)), model, twice)
    expected = twice.stat().st_size / model.stat().st_size
    assert comparison.ratio == pytest.approx(expected)
    assert comparison.interval.low == pytest.approx(expected) == comparison.interval.high
    assert comparison.record().keys() == {"a", "b", "ratio", "ratio_low", "ratio_high", "beyond_noise", "verdict"}
    verdict = comparison.describe()
    assert verdict.startswith(f"{model} is faster by {1 - 1 / expected:.1%}, more than noise: p50 ")
    # in turns, the sentinel before each
    tail = device.log[-22:]
    assert [name for name in tail if name != "Network"] == ["model.onnx"] * 4 + ["twice.onnx"] * 4


def test_a_file_is_as_fast_as_itself_whatever_the_machine_does(model: Path) -> None:
    comparison = compare_models(TargetMachine(FakeDevice(), effort=replace(EFFORT, rounds=10)), model, model)
    assert comparison.ratio == 1.0
    disturbed = replace(comparison, ratio=0.1, interval=Interval(0.08, 0.12))
    for one in (comparison, disturbed):
        told = f"A and B are the same file, what differs is noise: B takes {one.ratio:.3f} times as long"
        assert one.describe().startswith(told) and not one.beyond_noise
    assert replace(disturbed, same=False).beyond_noise, "of two files it would be more"


@pytest.mark.parametrize(
    ("ratio", "low", "high", "noise_floor", "beyond"),
    [
        (0.9, 0.88, 0.92, 0.02, True),
        (0.9, 0.88, 0.92, 0.12, False),  # a median may move by more
        (0.9, 0.80, 1.01, 0.02, False),
        (1.1, 1.08, 1.12, 0.02, True),
    ],
)
def test_more_than_noise_is_beyond_the_interval_and_the_noise_floor(
    machine: TargetMachine, model: Path, ratio: float, low: float, high: float, noise_floor: float, beyond: bool
) -> None:
    (bench,) = bench_models(machine, [model])
    a = replace(bench, measured=bench.measured._replace(noise_floor=noise_floor))
    b = replace(
        bench,
        file=bench.file._replace(path=Path("b")),
        timing=replace(bench.timing, p50_ms=ratio * bench.timing.p50_ms),
    )
    comparison = Comparison(a, b, ratio, Interval(low, high))
    assert comparison.beyond_noise is beyond
    winner = "b" if ratio < 1 else str(model)
    assert comparison.describe().startswith(f"{winner} is faster by " if beyond else "neither is faster")


@pytest.mark.parametrize("content", [b"", b"hello", bytes(range(256)) * 50, b'{"a": 1}', b"\x08\x07"])
def test_what_is_not_onnx_is_refused(machine: TargetMachine, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.onnx"
    path.write_bytes(content)
    with pytest.raises(UserError, match="is not an ONNX file"):
        bench_models(machine, [path])


def test_a_missing_file_or_a_folder_is_refused(machine: TargetMachine, tmp_path: Path) -> None:
    for path in (tmp_path / "none.onnx", tmp_path):
        with pytest.raises(UserError, match="there is no file"):
            bench_models(machine, [path])
