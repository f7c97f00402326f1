"""predict.py as a user gets it: alone in a folder, with onnxruntime, numpy and Pillow and nothing of ours."""

import os
import shutil
import struct
import subprocess
import sys
import venv
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from pipeline.artifacts.trained import Trained
from pipeline.config import DataConfig
from pipeline.data import load_data
from pipeline.data.decode import ImageRefused, decode
from pipeline.deploy.assembly import predict_source
from pipeline.deploy.deployed import reference_logits
from tests.deploy.conftest import LABELS

RESOLUTION = 16
# what predict.py makes of the files given to it, saved; whatever is not in the standard library is named here
READ_PIXELS = f"""
import runpy, sys
import numpy as np, onnxruntime, PIL.Image
sys.modules["pipeline"] = sys.modules["torch"] = None  # importing either fails from here on
from pathlib import Path
from typing import Any
script = runpy.run_path(sys.argv[1])
colour = sys.argv[3] == "3"
np.save(sys.argv[2], np.stack([script["decode"](Path(name), {RESOLUTION}, colour) for name in sys.argv[4:]]))
"""


def make_pictures(folder: Path) -> list[Path]:
    """Every kind of file that could be read differently from a plain RGB one."""
    folder.mkdir(exist_ok=True)
    random = np.random.default_rng(0)
    colours = random.integers(0, 256, (40, 30, 4), dtype=np.uint8)
    rgb, rgba = Image.fromarray(colours[..., :3]), Image.fromarray(colours)
    photo = Image.fromarray(random.integers(0, 256, (75, 100, 3), dtype=np.uint8)).resize((1600, 1200))
    turned = Image.Exif()
    turned[0x0112] = 6
    pictures: dict[str, tuple[Image.Image, dict[str, Any]]] = {
        "rgb.png": (rgb, {}),
        "rgba.png": (rgba, {}),
        "grey.png": (rgb.convert("L"), {}),
        "grey_with_a_clear_value.png": (rgb.convert("L"), {"transparency": 3}),
        "rgb_with_a_clear_colour.png": (rgb, {"transparency": rgb.getpixel((3, 5))}),
        "la.png": (rgba.convert("LA"), {}),
        "palette.png": (rgb.convert("P"), {}),
        "palette_with_a_clear_entry.png": (rgb.convert("P"), {"transparency": 3}),
        "deep.png": (Image.fromarray(random.integers(0, 65536, (40, 30)).astype(np.uint16)), {}),
        "deep.tif": (Image.fromarray(random.integers(0, 65536, (40, 30)).astype(np.int32)), {}),
        "bits.png": (rgb.convert("1"), {}),
        "animation.gif": (rgb.convert("P"), {"save_all": True, "append_images": [rgba.convert("P")]}),
        "large.jpg": (photo, {}),
        "drafted_by_half.jpg": (photo.resize((100, 80)), {}),  # where another margin would draft otherwise
        "large_grey.jpg": (photo.convert("L"), {}),
        "large_turned.jpg": (photo, {"exif": turned}),
        "large_cmyk.jpg": (photo.convert("CMYK"), {}),
        "turned.jpg": (rgb, {"exif": turned}),
        "turned.png": (rgb, {"exif": turned}),
        "cmyk.jpg": (rgb.convert("CMYK"), {}),
        "cmyk.tif": (rgb.convert("CMYK"), {}),
        "lab.tif": (rgb.convert("LAB"), {}),
        "clear.webp": (rgba, {"lossless": True}),
    }
    for name, (image, options) in pictures.items():
        image.save(folder / name, **options)
    return sorted(folder / name for name in pictures)


def make_refused(folder: Path) -> list[Path]:
    """Files that training refuses."""
    folder.mkdir(exist_ok=True)
    damaged, bomb, floats, deep, pipe = (
        folder / name for name in ("damaged.jpg", "bomb.png", "floats.tif", "deep.tif", "pipe.png")
    )
    Image.effect_noise((64, 64), 90).save(damaged)
    damaged.write_bytes(damaged.read_bytes()[:700])
    header = b"IHDR" + struct.pack(">IIBBBBB", 40_000, 40_000, 8, 2, 0, 0, 0)
    rest = b"IDAT" + zlib.compress(bytes(1_000_000))
    chunks = [struct.pack(">I", len(part) - 4) + part + struct.pack(">I", zlib.crc32(part)) for part in (header, rest)]
    bomb.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))
    Image.fromarray(np.zeros((8, 8), np.float32)).save(floats)
    Image.fromarray(np.full((8, 8), 70_000, np.int32)).save(deep)
    os.mkfifo(pipe)
    return [damaged, bomb, floats, deep, pipe]


def training_pixels(folder: Path, channels: int) -> torch.Tensor:
    """The images below `folder` as a network would be trained on them, in order of their names."""
    for label in ("a", "b"):
        shutil.copytree(folder, folder.parent / "classes" / label, dirs_exist_ok=True)
    config = DataConfig(format="folder", path="classes", resolution=RESOLUTION, colour=channels == 3)
    images = load_data(config, folder.parent, 0).pool.images
    return images.take(torch.arange(len(list(folder.iterdir()))))


def run(*command: object, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    words = list(map(str, command))
    return subprocess.run(words, capture_output=True, text=True, check=False, env=env, encoding="utf-8", timeout=300)


@pytest.fixture
def exported(model_file: Path, tmp_path: Path) -> Path:
    """predict.py beside its model, away from everything else."""
    folder = tmp_path / "exported"
    folder.mkdir()
    shutil.copy(model_file, folder / "model.onnx")
    (folder / "predict.py").write_text(predict_source(), encoding="utf-8")
    return folder / "predict.py"


@pytest.mark.parametrize("channels", [1, 3])
def test_pixels_are_those_of_training(exported: Path, tmp_path: Path, channels: int) -> None:
    pictures = make_pictures(tmp_path / "pictures")
    saved = tmp_path / "pixels.npy"
    done = run(sys.executable, "-c", READ_PIXELS, exported, saved, channels, *pictures)
    assert done.returncode == 0, done.stderr
    expected, found = training_pixels(tmp_path / "pictures", channels).numpy(), np.load(saved)
    for path, ours, theirs in zip(pictures, expected, found, strict=True):
        assert np.array_equal(ours, theirs), path.name


def expected_lines(trained: Trained, pixels: torch.Tensor) -> list[str]:
    best = reference_logits(trained, pixels[None]).softmax(1)[0].topk(5)
    return [
        f"{value:7.2%}  {LABELS[index]}"
        for value, index in zip(best.values.tolist(), best.indices.tolist(), strict=True)
    ]


def expected_answers(trained: Trained, pictures: list[Path]) -> str:
    """What is printed about all images of a folder, which are many: a line each, and how many there are of a class."""
    pixels = training_pixels(pictures[0].parent, 3)
    best = [expected_lines(trained, own)[0] for own in pixels]
    lines = [f"{line}  {path}" for line, path in zip(best, pictures, strict=True)]
    tally = Counter(line.split("  ")[-1] for line in best)
    return "\n".join([*lines, *(f"{count:7,}  {label}" for label, count in tally.most_common())])


def test_one_image_several_and_a_folder(trained: Trained, exported: Path, tmp_path: Path) -> None:
    pictures = make_pictures(tmp_path / "pictures")
    done = run(sys.executable, exported, pictures[0])
    assert done.returncode == 0, done.stderr
    pixels = torch.tensor(decode(pictures[0], RESOLUTION, True))
    alone = done.stdout.rstrip("\n")
    assert alone == "\n".join(expected_lines(trained, pixels))
    few = run(sys.executable, exported, *pictures[:3]).stdout.splitlines()
    assert few[:6] == [str(pictures[0]), *alone.splitlines()] and len(few) == 18
    (tmp_path / "pictures" / "notes.txt").write_text("no image")
    in_folder = run(sys.executable, exported, tmp_path / "pictures")
    (tmp_path / "pictures" / "notes.txt").unlink()
    assert in_folder.returncode == 0, in_folder.stderr
    assert in_folder.stdout == run(sys.executable, exported, *pictures).stdout
    assert in_folder.stdout.rstrip("\n") == expected_answers(trained, pictures)


@pytest.mark.parametrize(
    ("card", "threads"),
    [('{"certificate": {"device": {"threads": 3}}}', 3), ("{}", 0), ("[1]", 0), ("no JSON", 0), (None, 0)],
)
def test_it_runs_with_the_threads_of_the_certificate(card: str | None, threads: int, tmp_path: Path) -> None:
    """onnxruntime's own default, all cores, has another latency than the one that was promised."""
    script = tmp_path / "predict.py"
    script.write_text(predict_source(), encoding="utf-8")
    if card is not None:
        (tmp_path / "model.json").write_text(card)
    ask = f"import runpy; print(runpy.run_path({str(script)!r})['certified_threads'](__import__('pathlib').Path("
    done = subprocess.run(
        [sys.executable, "-c", f"{ask}{str(tmp_path / 'model.onnx')!r})))"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(threads)


def test_what_training_refuses_is_refused_in_the_same_words_and_the_rest_answered(
    exported: Path, tmp_path: Path
) -> None:
    sound, refused = make_pictures(tmp_path / "pictures")[0], make_refused(tmp_path / "refused")
    sentences = []
    for path in refused:
        with pytest.raises(ImageRefused) as caught:
            decode(path, RESOLUTION, True)
        sentences.append(str(caught.value))
    done = run(sys.executable, exported, *refused, sound)
    assert done.returncode == 1
    assert done.stderr.splitlines() == sentences
    line, tally = done.stdout.splitlines()
    assert line.endswith(f"  {sound}") and tally.startswith("      1  ")


def test_what_is_not_there_keeps_nothing_else_from_an_answer(exported: Path, tmp_path: Path) -> None:
    sound, missing, empty = make_pictures(tmp_path / "pictures")[0], tmp_path / "missing.png", tmp_path / "empty"
    empty.mkdir()
    alone = run(sys.executable, exported, sound).stdout
    done = run(sys.executable, exported, missing, sound, empty)
    assert done.returncode == 1 and done.stdout == f"{sound}\n{alone}", "several were asked about: it is named"
    assert done.stderr.splitlines() == [f"there is no file or folder {missing}", f"there is no image in {empty}"]


def test_the_right_thing_is_blamed(exported: Path, tmp_path: Path) -> None:
    picture, missing = make_pictures(tmp_path / "pictures")[0], tmp_path / "missing.png"
    (tmp_path / "empty").mkdir()
    foreign = tmp_path / "foreign.onnx"
    foreign.write_bytes(b"not a model")
    for arguments, sentence in (
        ([missing], f"there is no file or folder {missing}"),
        ([tmp_path / "empty"], f"there is no image in {tmp_path / 'empty'}"),
        ([exported.with_name("model.onnx")], "model.onnx is damaged"),
        ([picture, "--model", missing], f"there is no model {missing}"),
        ([picture, "--model", foreign], f"{foreign} is not a model"),
    ):
        done = run(sys.executable, exported, *arguments)
        assert done.returncode == 1 and done.stdout == "", done.stderr
        assert sentence in done.stderr and "Traceback" not in done.stderr
    done = run(sys.executable, exported)
    assert done.returncode == 2 and "IMAGE_OR_FOLDER" in done.stderr


def fresh_python(folder: Path, *packages: str) -> Path:
    """An environment with these packages alone."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True)
    assert run(python, "-c", "import torch").returncode == 1
    return python


@pytest.mark.slow
def test_in_an_environment_with_onnxruntime_numpy_and_pillow_only(
    trained: Trained, exported: Path, tmp_path: Path
) -> None:
    python = fresh_python(tmp_path / "venv", "onnxruntime", "numpy", "pillow")
    pictures = make_pictures(tmp_path / "pictures")
    bare = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = run(python, exported, *pictures, env=bare)
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip("\n") == expected_answers(trained, pictures)


@pytest.mark.slow
def test_the_oldest_onnxruntime_that_is_claimed_loads_the_model(
    trained: Trained, exported: Path, tmp_path: Path
) -> None:
    from pipeline.onnx_file import OLDEST_ONNXRUNTIME

    python = fresh_python(tmp_path / "venv", f"onnxruntime=={OLDEST_ONNXRUNTIME}.*", "numpy<2", "pillow")
    pictures = make_pictures(tmp_path / "pictures")
    done = run(python, exported, *pictures)
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip("\n") == expected_answers(trained, pictures)
