import json
from pathlib import Path

import onnx
import pytest
import torch

from pipeline.errors import UserError
from pipeline.latency.bench import bench_model, compare_models
from pipeline.latency.devices import open_device
from pipeline.latency.measure import Effort
from pipeline.onnx_file import write_quick
from tests.latency.fakes import FakeDevice

EFFORT = Effort(rounds=2, calls=3, extra_rounds=0)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    write_quick(torch.nn.Conv2d(3, 4, 3), [torch.rand(1, 3, 8, 8)], path)
    return path


def test_a_real_file_is_timed(model: Path) -> None:
    record = bench_model(open_device("cpu"), model, EFFORT).record()
    assert 0 < record["p50_ms"] <= record["p95_ms"] <= record["p99_ms"]
    assert (record["threads"], record["batch"], record["count"]) == (1, 1, 6)
    assert {"noise_floor", "warm_up", "device", "provider", "model"} <= set(record)
    json.dumps(record)


def test_the_ratio_of_two_files_has_an_interval(model: Path, tmp_path: Path) -> None:
    twice = tmp_path / "twice.onnx"
    loaded = onnx.load(model)
    loaded.doc_string = "x" * (2 * model.stat().st_size - model.stat().st_size - 3)
    twice.write_bytes(loaded.SerializeToString())
    device = FakeDevice()  # a file takes as long as it is large
    comparison = compare_models(device, model, twice, EFFORT)
    expected = twice.stat().st_size / model.stat().st_size
    assert comparison.ratio == pytest.approx(expected)
    assert comparison.interval.low == pytest.approx(expected) == comparison.interval.high
    assert set(comparison.record()) == {"a", "b", "ratio", "ratio_low", "ratio_high"}
    # in turns, the sentinel before each
    tail = device.log[-22:]
    assert [name for name in tail if name != "Network"] == ["model.onnx"] * 4 + ["twice.onnx"] * 4


def test_a_file_is_as_fast_as_itself(model: Path) -> None:
    comparison = compare_models(FakeDevice(), model, model, EFFORT)
    assert comparison.ratio == 1.0


@pytest.mark.parametrize("content", [b"", b"hello", bytes(range(256)) * 50, b'{"a": 1}', b"\x08\x07"])
def test_what_is_not_onnx_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.onnx"
    path.write_bytes(content)
    with pytest.raises(UserError, match="is not an ONNX file"):
        bench_model(FakeDevice(), path, EFFORT)


def test_a_missing_file_or_a_folder_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.onnx", tmp_path):
        with pytest.raises(UserError, match="there is no file"):
            bench_model(FakeDevice(), path, EFFORT)


def test_progress_ends_with_all(model: Path) -> None:
    shares: list[float] = []
    bench_model(FakeDevice(), model, EFFORT, shares.append)
    assert shares == [0.5, 1.0]
