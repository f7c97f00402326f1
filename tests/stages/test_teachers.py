"""Teachers of every make, opened for a run: what they see and answer, and a training that learns from one."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from onnx import TensorProto
from torch.nn import functional

from pipeline.artifacts.metrics import Metrics
from pipeline.artifacts.trained import Trained
from pipeline.data.normalization import to_floats
from pipeline.stages import retrain
from pipeline.stages.context import Context
from pipeline.stages.teachers import open_teacher
from tests.stages.made_teachers import NAMES, SIDE, SMALLEST, make_timm, opened, taught, write_onnx, write_timm
from tests.stages.test_retrain import choose, make_context
from tests.training.material import CPU


def images_of(context: Context, count: int = 6) -> torch.Tensor:
    return to_floats(context.data.test.images.take(context.data.test.indices[:count]))


def test_without_the_setting_there_is_none(tmp_path: Path) -> None:
    assert open_teacher(make_context(tmp_path), CPU) is None


def test_an_onnx_file_sees_pixels_from_0_to_1_at_its_own_size(tmp_path: Path) -> None:
    weights = np.random.default_rng(1).normal(size=(3 * 16 * 16, 10)).astype(np.float32)
    write_onnx(tmp_path / "big.onnx", ("n", 3, 16, 16), weights=weights, labels=NAMES)
    context = make_context(tmp_path, teacher="big.onnx")
    images = images_of(context)
    resized = functional.interpolate(images, size=(16, 16), mode="bilinear", antialias=True).repeat(1, 3, 1, 1)
    wanted = resized.flatten(1).double().numpy() @ weights.astype(np.float64)
    assert np.allclose(opened(context)(images).numpy(), wanted, atol=1e-4)


def test_an_onnx_file_may_want_bytes_or_another_normalization(tmp_path: Path) -> None:
    weights = np.random.default_rng(1).normal(size=(64, 10)).astype(np.float32)
    write_onnx(tmp_path / "bytes.onnx", weights=weights, kind=TensorProto.UINT8)
    write_onnx(tmp_path / "floats.onnx", weights=weights)
    context = make_context(tmp_path, teacher="bytes.onnx")
    images = images_of(context)
    pixels = images.flatten(1).double().numpy()
    assert np.allclose(opened(context)(images).numpy(), pixels * 255 @ weights, rtol=1e-4, atol=1e-2)
    other = make_context(tmp_path, teacher="floats.onnx", teacher_mean=[0.5], teacher_std=[0.25])
    assert np.allclose(opened(other)(images).numpy(), (pixels - 0.5) / 0.25 @ weights, atol=1e-3)


def test_a_checkpoint_of_timm_answers_as_timm_does(tmp_path: Path) -> None:
    write_timm(tmp_path / "mine.safetensors", channels=3)
    context = make_context(tmp_path, teacher=f"timm:{SMALLEST}@mine.safetensors")
    teacher, images = opened(context), images_of(context)
    assert teacher.view.side == 160 and teacher.view.mean.flatten().tolist() == [0.5] * 3
    resized = functional.interpolate(images, size=(160, 160), mode="bilinear", antialias=True).repeat(1, 3, 1, 1)
    with torch.no_grad():
        wanted = make_timm(10, 3).eval()((resized - 0.5) / 0.5)
    assert torch.allclose(teacher(images), wanted, atol=1e-4)
    assert teacher.sha256 == sha256(tmp_path / "mine.safetensors")


def sha256(path: Path) -> str:
    import hashlib

    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_weights_of_another_run_are_a_teacher(tmp_path: Path) -> None:
    big = choose(make_context(tmp_path, epochs=1))
    retrain.run(big)
    context = make_context(tmp_path, teacher="runs/demo/retrain/weights.safetensors")
    trained, images = big.read(Trained), images_of(context)
    mean, std = (torch.tensor(values).view(1, -1, 1, 1) for values in (trained.mean, trained.std))
    with torch.no_grad():
        assert torch.allclose(opened(context)(images), trained.network((images - mean) / std), atol=1e-5)


def test_what_teach_left_takes_the_place_of_timms_own(tmp_path: Path) -> None:
    context = make_context(tmp_path, teacher=f"timm:{SMALLEST}")
    context.write(taught(context, f"timm:{SMALLEST}"))
    images = images_of(context)
    resized = functional.interpolate(images, size=(SIDE, SIDE), mode="bilinear", antialias=True)
    with torch.no_grad():
        wanted = make_timm(10, 1).eval()((resized - 0.5) / 0.5)
    assert torch.allclose(opened(context)(images), wanted, atol=1e-5)
    by_path = make_context(tmp_path, teacher="runs/demo/teach/weights.safetensors")
    assert torch.equal(opened(by_path)(images), opened(context)(images))


def test_weights_come_from_the_hubs_safetensors_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def download(hub: str, name: str, local_files_only: bool) -> str:
        asked.append((hub, name, local_files_only))
        return str(write_timm(tmp_path / "cached.safetensors", classes=10, channels=3))

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    monkeypatch.setattr("pipeline.stages.teachers.classes_of", lambda name: 10)
    monkeypatch.setattr("torch.load", lambda *_, **__: pytest.fail("it unpickled"))
    context = make_context(tmp_path, teacher=f"timm:{SMALLEST}")
    assert opened(context).sha256 == sha256(tmp_path / "cached.safetensors")
    assert asked == [(f"timm/{SMALLEST}.r160_in1k", "model.safetensors", True)], "the cache is asked first"


def test_retrain_learns_from_it_and_keeps_what_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_onnx(tmp_path / "teacher.onnx", labels=NAMES)
    plain = choose(make_context(tmp_path / "plain", epochs=1))
    context = choose(make_context(tmp_path, epochs=1, teacher="teacher.onnx", teacher_weight=0.5, temperature=2.0))
    retrain.run(plain)
    retrain.run(context)
    found = context.read(Metrics).teacher
    assert found is not None and found.sha256 == sha256(tmp_path / "teacher.onnx")
    assert (found.weight, found.temperature) == (0.5, 2.0)
    assert "teacher" not in json.loads(plain.run.metrics.read_text())
    assert plain.run.weights.read_bytes() != context.run.weights.read_bytes()
    assert b"teacher" not in context.run.weights.read_bytes()


def test_another_teacher_file_is_another_training(tmp_path: Path) -> None:
    hashes = []
    for seed in (0, 0, 1):
        weights = np.random.default_rng(seed).normal(size=(64, 10)).astype(np.float32)
        write_onnx(tmp_path / "teacher.onnx", weights=weights)
        context = choose(make_context(tmp_path, teacher="teacher.onnx"))
        hashes.append(retrain.prepare(context, CPU).job.config_hash)
    assert hashes[0] == hashes[1] != hashes[2]
