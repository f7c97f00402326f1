import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from pipeline.data.decode import decode
from pipeline.deploy import predict_script
from pipeline.deploy.deployed import reference_logits
from tests.deploy.conftest import LABELS

SCRIPT = Path(predict_script.__file__)


def make_pictures(folder: Path) -> list[Path]:
    """Every kind of file that training reads differently from a plain RGB one."""
    random = np.random.default_rng(0)
    colours = random.integers(0, 256, (40, 30, 4), dtype=np.uint8)
    rgb, rgba = Image.fromarray(colours[..., :3]), Image.fromarray(colours)
    exif = Image.Exif()
    exif[0x0112] = 6
    pictures = {
        "rgb.png": (rgb, {}),
        "rgba.png": (rgba, {}),
        "grey.png": (rgb.convert("L"), {}),
        "la.png": (rgba.convert("LA"), {}),
        "palette.png": (rgb.convert("P"), {"transparency": 3}),
        "deep.png": (Image.fromarray(random.integers(0, 65536, (40, 30)).astype(np.uint16)), {}),
        "bits.png": (rgb.convert("1"), {}),
        "turned.jpg": (rgb, {"exif": exif}),
        "cmyk.jpg": (rgb.convert("CMYK"), {}),
    }
    for name, (image, options) in pictures.items():
        image.save(folder / name, **options)
    return [folder / name for name in pictures]


@pytest.mark.parametrize("channels", [1, 3])
def test_pixels_are_those_of_training(tmp_path, channels):
    for path in make_pictures(tmp_path):
        expected = decode(path, 16, channels == 3)
        assert np.array_equal(predict_script.read_pixels(str(path), channels, 16)[0], expected), path.name


def expected_lines(trained, picture: Path) -> list[str]:
    image = torch.tensor(decode(picture, 16, True))[None]
    best = reference_logits(trained, image).softmax(1)[0].topk(5)
    return [
        f"{value:7.2%}  {LABELS[index]}"
        for value, index in zip(best.values.tolist(), best.indices.tolist(), strict=True)
    ]


def run_script(python: str, *arguments: object, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [python, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env, encoding="utf-8")


def test_top_five(trained, model_file, tmp_path):
    shutil.copy(SCRIPT, tmp_path / "predict.py")
    shutil.copy(model_file, tmp_path / "model.onnx")
    picture = make_pictures(tmp_path)[0]
    done = run_script(sys.executable, tmp_path / "predict.py", picture)
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip("\n") == "\n".join(expected_lines(trained, picture))
    for wrong in ([tmp_path / "model.onnx"], [tmp_path / "missing.png"], []):
        done = run_script(sys.executable, tmp_path / "predict.py", *wrong)
        assert done.returncode == 1 and "Traceback" not in done.stderr and done.stderr


@pytest.mark.slow
def test_in_an_environment_with_onnxruntime_numpy_and_pillow_only(trained, model_file, tmp_path):
    venv.create(tmp_path / "venv", with_pip=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "-q", "onnxruntime", "numpy", "pillow"], check=True)
    assert run_script(python, "-c", "import torch").returncode == 1
    folder = tmp_path / "moved"
    folder.mkdir()
    shutil.copy(SCRIPT, folder / "predict.py")
    shutil.copy(model_file, folder / "model.onnx")
    picture = make_pictures(tmp_path)[0]
    bare = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = run_script(python, folder / "predict.py", picture, env=bare)
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip("\n") == "\n".join(expected_lines(trained, picture))


@pytest.mark.slow
def test_the_oldest_onnxruntime_that_is_claimed_loads_the_model(trained, model_file, tmp_path):
    from pipeline.onnx_file import OLDEST_ONNXRUNTIME

    venv.create(tmp_path / "venv", with_pip=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    wanted = [f"onnxruntime=={OLDEST_ONNXRUNTIME}.*", "numpy<2", "pillow"]
    subprocess.run([python, "-m", "pip", "install", "-q", *wanted], check=True)
    shutil.copy(SCRIPT, tmp_path / "predict.py")
    shutil.copy(model_file, tmp_path / "model.onnx")
    picture = make_pictures(tmp_path)[0]
    done = run_script(python, tmp_path / "predict.py", picture)
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip("\n") == "\n".join(expected_lines(trained, picture))
