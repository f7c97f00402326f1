"""What a look at the data finds."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pipeline.config import DataConfig
from pipeline.data import ImageData, load_data
from pipeline.data.check import Duplicate, check_data
from pipeline.errors import UserError

FOLDER = DataConfig(format="folder", path="photos", resolution=8, colour=True)
COUNTS = {"train/cat": 6, "train/dog": 8, "test/cat": 2, "test/dog": 3}


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    for label, count in COUNTS.items():
        folder = tmp_path / "photos" / label
        folder.mkdir(parents=True)
        for number in range(count):
            pixels = random.integers(0, 256, (10 + number, 20, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / f"{number}.png")
    return tmp_path / "photos"


def load(photos: Path, **changes: object) -> ImageData:
    return load_data(FOLDER.model_copy(update=changes), photos.parent, 0)


def test_sound_data(photos: Path) -> None:
    found = check_data(load(photos))
    assert found.labels == ("cat", "dog")
    assert found.counts == {"train": [3, 4], "validation": [3, 4], "test": [2, 3]}
    assert found.decoded == 19 and len(found.sizes) == 19 and (20, 17) in found.sizes
    assert (found.refusals, found.empty_folders, found.duplicates) == ([], [], [])


def test_damaged_files_and_empty_folders_are_all_named(photos: Path) -> None:
    damaged = [photos / "train/cat/1.png", photos / "test/dog/0.png"]
    for path in damaged:
        path.write_bytes(path.read_bytes()[:60])
    for name in ("train/fish", "test/fish/deeper", "train/.hidden"):
        (photos / name).mkdir(parents=True)
    found = check_data(load(photos))
    assert len(found.refusals) == 2 and found.decoded == 17
    assert all(str(path) in sentence for path, sentence in zip(damaged, found.refusals, strict=True))
    assert found.empty_folders == [photos / "test/fish", photos / "train/fish"]
    assert found.duplicates is None


def test_a_pipe_among_the_images_is_named_and_not_waited_for(photos: Path) -> None:
    os.mkfifo(photos / "train" / "cat" / "pipe.png")
    found = check_data(load(photos))
    assert len(found.refusals) == 1 and "pipe.png is not a file" in found.refusals[0] and len(found.sizes) == 19


def test_images_in_training_and_test_are_pairs(photos: Path) -> None:
    shutil.copy(photos / "train/dog/2.png", photos / "test/cat/copy.png")
    shutil.copy(photos / "train/dog/2.png", photos / "train/dog/copy.png")  # twice in training alone is no matter
    (pair,) = check_data(load(photos)).duplicates or []
    assert pair.test == str(photos / "test/cat/copy.png")
    assert pair.training in {str(photos / "train/dog/2.png"), str(photos / "train/dog/copy.png")}


def test_arrays_are_looked_through_too(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (12, 8, 8), dtype=np.uint8)
    labels = np.arange(12) % 2
    tests = np.concatenate([images[4:5], 255 - images[:3]])
    np.savez(tmp_path / "images.npz", x_train=images, y_train=labels, x_test=tests, y_test=labels[:4])
    config = DataConfig(format="npz", path="images.npz", resolution=8)
    found = check_data(load_data(config, tmp_path, 0))
    assert found.duplicates == [Duplicate("image 4", "image 12")]
    assert found.sizes == [] and found.decoded == 16


def test_of_a_set_beyond_memory_a_sample_is_decoded(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.data.check._SAMPLE", 5)
    data = load(photos)
    data.pool.images.fits = False  # type: ignore[attr-defined]
    found = check_data(data)
    assert found.decoded == len(found.sizes) == 5 and found.duplicates is None
    assert sum(map(sum, found.counts.values())) == 19


def test_a_stated_number_of_classes_must_be_right(photos: Path) -> None:
    assert load(photos, classes=2).classes == 2
    with pytest.raises(UserError, match=r"2 classes, but \[data\] classes = 3"):
        load(photos, classes=3)
