"""Teachers of every make, opened for a run: what they see and answer, what is said about them, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnx import TensorProto
from torch.nn import functional

from pipeline.artifacts.metrics import Metrics
from pipeline.artifacts.taught import TaughtFacts, TaughtTeacher
from pipeline.artifacts.trained import Trained
from pipeline.autodo_config import AutodoConfig
from pipeline.config import DataConfig
from pipeline.data.normalization import to_floats
from pipeline.errors import UserError
from pipeline.stages import retrain
from pipeline.stages.context import Context
from pipeline.stages.parts import split_training
from pipeline.stages.teacher_judgement import judge
from pipeline.stages.teachers import open_teacher
from pipeline.training.linear_probe import probe_accuracy
from pipeline.training.teacher import Teacher
from tests.stages.made_teachers import SIDE, SMALLEST, make_timm, write_onnx, write_timm
from tests.stages.test_retrain import choose, make_context
from tests.training.material import CPU

NAMES = tuple(map(str, range(10)))


def opened(context: Context) -> Teacher:
    teacher = open_teacher(context, CPU)
    assert teacher is not None
    return teacher


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


def taught(context: Context, source: str, labels: tuple[str, ...] = NAMES) -> TaughtTeacher:
    facts = TaughtFacts(source=source, architecture=SMALLEST, side=SIDE, mean=(0.5,), std=(0.5,), labels=labels)
    return TaughtTeacher(facts, make_timm(10, 1).state_dict())


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


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "missing": ({"teacher": "nowhere.onnx"}, "there is no .*nowhere.onnx"),
    "missing checkpoint": ({"teacher": f"timm:{SMALLEST}@no.safetensors"}, "there is no .*no.safetensors"),
    "a pickle": ({"teacher": "net.pth"}, r"pickle.*convert.*save_file.*net.safetensors.*timm:NAME@net.safetensors"),
    "timm's pickle": ({"teacher": f"timm:{SMALLEST}@n.pt"}, rf"weights_only=True.*timm:{SMALLEST}@n.safetensors"),
    "a tar": ({"teacher": "net.pth.tar"}, "pickle"),
    "no kind of ours": ({"teacher": "resnet18"}, "written timm:NAME"),
    "nothing after @": ({"teacher": "timm:resnet18@"}, "names no file"),
    "no name": ({"teacher": "timm:"}, "names no network"),
    "unknown name": ({"teacher": "timm:resnet19"}, r"timm knows no network 'resnet19'; did you mean resnet1"),
    "unknown tag": ({"teacher": "timm:resnet18.mine"}, "no weights 'mine' of resnet18; there are a1_in1k"),
    "head of ImageNet": (
        {"teacher": f"timm:{SMALLEST}"},
        r"answers for 1000 classes, the data have 10: run `pipeline teach",
    ),
    "head of another": (
        {"teacher": f"timm:{SMALLEST}@seven.safetensors"},
        "answers for 7 classes.*pipeline teach --run",
    ),
    "other weights": ({"teacher": "timm:test_vit@ten.safetensors"}, "not those of timm's test_vit"),
    "two channels": ({"teacher": f"timm:{SMALLEST}@two.safetensors"}, "takes 2 channels, the data have 1"),
    "no name in the file": ({"teacher": "ten.safetensors"}, 'teacher = "timm:NAME@ten.safetensors"'),
    "torn file": ({"teacher": "torn.safetensors"}, "not a whole safetensors file"),
    "torn checkpoint": ({"teacher": f"timm:{SMALLEST}@torn.safetensors"}, "not a whole safetensors file"),
    "torn onnx": ({"teacher": "torn.onnx"}, "onnxruntime cannot load it"),
    "onnx classes": ({"teacher": "seven.onnx"}, "answers for 7 classes, the data have 10"),
    "onnx labels": ({"teacher": "cats.onnx"}, "class 0 is 'cat', that of the data '0'"),
    "onnx names": ({"teacher": "few.onnx"}, "it names 9, the data 10"),
    "onnx channels": ({"teacher": "four.onnx"}, "takes 4 channels, the data have 1"),
    "open size": ({"teacher": "open.onnx"}, "leaves channels, height or width open; export it at a fixed size"),
    "no shape": ({"teacher": "shapeless.onnx"}, r"not \[batch, channels, height, width\]"),
    "fixed batch": ({"teacher": "single.onnx"}, "takes 1 images at a time; export it with a batch axis that is free"),
    "batch of one inside": ({"teacher": "one.onnx"}, r"cannot answer for images \(.*eshape"),
    "three axes": ({"teacher": "axes.onnx"}, r"tensor of shape \[2, 10, 1\], not \[2, 10\]"),
    "one for all": ({"teacher": "all.onnx"}, r"tensor of shape \[1, 20\], not \[2, 10\]"),
    "oblong": ({"teacher": "oblong.onnx"}, "8 × 16 pixels"),
    "two outputs": ({"teacher": "twice.onnx"}, "1 inputs and 2 outputs"),
    "wrong type": ({"teacher": "ints.onnx"}, "not of float32 or uint8"),
    "mean of three": ({"teacher": "ten.onnx", "teacher_mean": [0.5] * 3}, "teacher_mean has 3 numbers, .* 1 channels"),
}


def write_bad_files(folder: Path) -> None:
    write_timm(folder / "seven.safetensors", classes=7)
    write_timm(folder / "ten.safetensors")
    write_timm(folder / "two.safetensors", channels=2)
    for name in ("torn.safetensors", "torn.onnx", "net.pth", "n.pt"):
        (folder / name).write_bytes(b"\x80\x04torn")
    write_onnx(folder / "ten.onnx")
    write_onnx(folder / "seven.onnx", classes=7)
    write_onnx(folder / "cats.onnx", labels=("cat", *NAMES[1:]))
    write_onnx(folder / "few.onnx", labels=NAMES[:9])
    write_onnx(folder / "four.onnx", ("n", 4, 8, 8))
    write_onnx(folder / "open.onnx", ("n", 1, "h", "w"), weights=np.zeros((64, 10), np.float32), inner=(-1, 64))
    write_onnx(folder / "shapeless.onnx", None)
    write_onnx(folder / "single.onnx", (1, 1, 8, 8))
    write_onnx(folder / "oblong.onnx", ("n", 1, 8, 16))
    write_onnx(folder / "one.onnx", inner=(1, 64))
    write_onnx(folder / "axes.onnx", outer=(-1, 10, 1))
    write_onnx(folder / "all.onnx", outer=(1, -1))
    write_onnx(folder / "twice.onnx", outputs=2)
    write_onnx(folder / "ints.onnx", kind=TensorProto.INT64)


@pytest.fixture(scope="module")
def bad_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bad")
    write_bad_files(folder)
    return folder


@pytest.mark.parametrize("name", BAD)
def test_a_bad_teacher_is_refused_before_anything_is_written(bad_files: Path, name: str) -> None:
    settings, match = BAD[name]
    context = make_context(bad_files, **settings)
    with pytest.raises(UserError, match=match):
        open_teacher(context, CPU)
    assert UserError.exit_code == 2 and not context.run.root.exists()


def test_colour_data_need_a_teacher_of_colour(bad_files: Path) -> None:
    context = make_context(bad_files, teacher="ten.onnx")
    colour = replace(context, config=context.config.model_copy(update={"data": DataConfig(resolution=8, colour=True)}))
    with pytest.raises(UserError, match=r"takes 1 channels, the data have 3; set \[data\] colour = false"):
        open_teacher(colour, CPU)


def test_what_was_taught_for_another_setting_is_refused(tmp_path: Path) -> None:
    context = make_context(tmp_path, teacher=f"timm:{SMALLEST}")
    context.write(taught(context, "timm:resnet18"))
    with pytest.raises(UserError, match=r"made from timm:resnet18, .*`pipeline teach --run demo` again"):
        open_teacher(context, CPU)


def test_learning_about_images_and_from_a_teacher_exclude_each_other(bad_files: Path) -> None:
    context = make_context(bad_files, teacher="ten.onnx")
    autodo = AutodoConfig(learn="weights", guide_share=0.1)
    with pytest.raises(UserError, match="exclude each other"):
        open_teacher(replace(context, config=context.config.model_copy(update={"autodo": autodo})), CPU)


def test_without_a_network_it_is_said_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*_: object, **__: object) -> str:
        raise OSError("Name or service not known")

    monkeypatch.setattr("huggingface_hub.hf_hub_download", offline)
    monkeypatch.setattr("pipeline.stages.teachers.classes_of", lambda name: 10)
    context = make_context(tmp_path, teacher=f"timm:{SMALLEST}")
    with pytest.raises(UserError, match=rf"not known\); .*download model.safetensors of timm/.*timm:{SMALLEST}@model"):
        open_teacher(context, CPU)


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


def judged(context: Context, weights: np.ndarray) -> Any:
    write_onnx(context.run.project / "teacher.onnx", weights=weights.astype(np.float32))
    return judge(opened(context), split_training(context), context)


def test_a_teacher_is_judged_on_the_holdout_beside_a_linear_probe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    context = make_context(tmp_path, teacher="teacher.onnx", holdout_share=0.2)
    parts = split_training(context)
    assert parts.holdout is not None
    weights = np.random.default_rng(0).normal(size=(64, 10))
    figures = judged(context, weights)
    pixels = to_floats(parts.holdout.images.take(parts.holdout.indices)).flatten(1).numpy()
    truth = parts.holdout.targets[parts.holdout.indices].numpy()
    assert figures.accuracy == pytest.approx(float(((pixels @ weights).argmax(1) == truth).mean()))
    assert figures.images == len(truth) and figures.judged_on == "the holdout" and not figures.kept
    assert figures.probe_accuracy == probe_accuracy(parts.train, parts.holdout) > 0.7
    told = capsys.readouterr().err
    assert "a plain linear probe" in told and "this teacher is worse" in told


def test_a_good_teacher_is_not_named_and_without_a_holdout_it_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    context = make_context(tmp_path, teacher="teacher.onnx")
    data = context.data
    pixels = to_floats(data.pool.images.take(torch.arange(len(data.pool.targets)))).flatten(1).double()
    signs = 2 * functional.one_hot(data.pool.targets, 10).double() - 1
    best = torch.linalg.lstsq(pixels, signs).solution.numpy()  # of all images: it has seen the answers
    figures = judged(context, best)
    assert figures.accuracy >= figures.probe_accuracy and "may have seen" in figures.judged_on
    told = capsys.readouterr().err
    assert "is right on" in told and "linear probe" not in told


def test_logits_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    context = make_context(tmp_path, teacher="teacher.onnx")
    with pytest.raises(UserError, match="not finite"):
        judged(context, np.full((64, 10), np.nan))


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
