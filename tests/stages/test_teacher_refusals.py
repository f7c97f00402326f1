"""Teachers that are refused, each in a sentence, before anything is written."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from pipeline.autodo_config import AutodoConfig
from pipeline.config import DataConfig
from pipeline.errors import UserError
from pipeline.stages.teachers import open_teacher
from tests.stages.made_teachers import NAMES, SMALLEST, taught, write_onnx, write_timm
from tests.stages.test_retrain import make_context
from tests.training.material import CPU

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
