"""Digits, npz and idx: the right pixels under the right labels, and one sentence for everything that is wrong."""

import gzip
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

from pipeline.config import DataConfig
from pipeline.data import load_data
from pipeline.data.pixels import fit_images
from pipeline.errors import UserError

RANDOM = np.random.default_rng(0)


def image_array(count: int, *shape: int) -> np.ndarray[Any, Any]:
    return RANDOM.integers(0, 256, (count, *shape), dtype=np.uint8)


def labels_of(count: int, classes: int = 2) -> np.ndarray[Any, Any]:
    return np.arange(count) % classes


def load_npz(folder: Path, resolution: int = 8, colour: bool = False, **arrays: Any) -> Any:
    np.savez(folder / "data.npz", **arrays)
    return load_data(DataConfig(format="npz", path="data.npz", resolution=resolution, colour=colour), folder, 0)


def test_digits_are_stretched_to_bytes_and_resized() -> None:
    data = load_data(DataConfig(resolution=8), Path(), 0)
    raw = load_digits()
    assert data.labels == tuple("0123456789") and data.classes == 10 and data.in_channels == 1
    for part in (data.train, data.validation, data.test):
        image, label = part[3]
        index = int(part.indices[3])
        assert image.dtype == torch.uint8 and label == raw.target[index]
        np.testing.assert_array_equal(image[0].numpy(), np.round(raw.images[index] * 255 / 16).astype(np.uint8))
    assert len(data.test) == pytest.approx(0.2 * 1797, abs=2)
    assert len(data.train) + len(data.validation) == len(data.train_all) == 1797 - len(data.test)


def test_digits_grow_to_sixteen_pixels_as_pillow_would_draw_them() -> None:
    data = load_data(DataConfig(resolution=16, colour=True), Path(), 0)
    image, _ = data.test[0]
    raw = load_digits().images[int(data.test.indices[0])] * 255 / 16
    drawn = np.asarray(Image.fromarray(raw.astype(np.float32)).resize((16, 16), Image.Resampling.BILINEAR))
    assert image.shape == (3, 16, 16)
    assert np.abs(image.numpy() - drawn).max() <= 0.51


def test_statistics_are_those_of_the_training_images() -> None:
    data = load_data(DataConfig(resolution=8), Path(), 0)
    pixels = np.stack([data.train_all[i][0].numpy() for i in range(len(data.train_all))]) / 255
    assert data.mean == pytest.approx([pixels.mean()], abs=1e-12)
    assert data.std == pytest.approx([pixels.std()], abs=1e-12)


def test_a_constant_channel_has_a_usable_spread(tmp_path: Path) -> None:
    images = np.full((12, 8, 8, 3), (0, 128, 255), dtype=np.uint8)
    data = load_npz(tmp_path, colour=True, x_train=images, y_train=labels_of(12))
    assert min(data.std) > 0
    assert data.mean == pytest.approx([0, 128 / 255, 1])


@pytest.mark.parametrize("layout", ["NHW", "NHWC", "NCHW", "float", "binary", "column labels"])
def test_npz_layouts_mean_the_same_images(tmp_path: Path, layout: str) -> None:
    images, labels = image_array(20, 8, 8), labels_of(20)
    if layout == "binary":
        images = images // 128 * 255
    forms: dict[str, np.ndarray[Any, Any]] = {
        "NHWC": images[..., None],
        "NCHW": images[:, None],
        "float": images / 255,
        "binary": images // 255,
    }
    given = labels[:, None] if layout == "column labels" else labels
    pixels = forms.get(layout, images)
    data = load_npz(tmp_path, x_train=pixels, y_train=given, x_test=pixels[:6], y_test=given[:6])
    assert [data.test[i][1] for i in range(6)] == labels[:6].tolist()
    for part in (data.train, data.validation):
        for position in range(len(part)):
            image, label = part[position]
            index = int(part.indices[position])
            np.testing.assert_array_equal(image[0].numpy(), images[index])
            assert label == labels[index]


def test_colour_becomes_grey_as_in_pillow_and_grey_is_repeated(tmp_path: Path) -> None:
    images = image_array(12, 8, 8, 3)
    grey = load_npz(tmp_path, x_train=images, y_train=labels_of(12))
    image, _ = grey.train[0]
    drawn = np.asarray(Image.fromarray(images[int(grey.train.indices[0])]).convert("L"), dtype=int)
    assert np.abs(image[0].numpy() - drawn).max() <= 1
    colour = load_npz(tmp_path, colour=True, x_train=images[..., 0], y_train=labels_of(12))
    assert (colour.train[0][0] == colour.train[0][0][:1]).all() and colour.in_channels == 3


def test_a_rectangle_keeps_its_centre_square() -> None:
    images = torch.from_numpy(image_array(2, 1, 6, 12))
    assert fit_images(images, 6, colour=False).equal(images[..., 3:9])


def test_class_names_replace_numbers(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x_train=image_array(12, 8, 8), y_train=labels_of(12))
    config = DataConfig(format="npz", path="data.npz", resolution=8, class_names=("cat", "dog"))
    assert load_data(config, tmp_path, 0).labels == ("cat", "dog")
    with pytest.raises(UserError, match="3 names, but the data has 2"):
        load_data(config.model_copy(update={"class_names": ("a", "b", "c")}), tmp_path, 0)


def test_changed_data_changes_the_hash_and_the_record_is_json(tmp_path: Path) -> None:
    images = image_array(12, 8, 8)
    first = load_npz(tmp_path, x_train=images, y_train=labels_of(12))
    again = load_npz(tmp_path, x_train=images, y_train=labels_of(12))
    record = first.split_record()
    assert record == again.split_record()
    assert record["test"]["indices"] == first.test.indices.tolist() and record["hash_over"] == "contents"
    changed = images.copy()
    changed[0, 0, 0] ^= 1
    assert load_npz(tmp_path, x_train=changed, y_train=labels_of(12)).data_hash != first.data_hash


class Trap:
    """Would create a file if it were ever unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return Path.touch, (self.path,)


def test_object_arrays_are_never_unpickled(tmp_path: Path) -> None:
    trap = np.array([Trap(tmp_path / "sprung")] * 12, dtype=object)
    with pytest.raises(UserError, match=r"x_train in .* holds Python objects"):
        load_npz(tmp_path, x_train=trap, y_train=labels_of(12))
    assert not (tmp_path / "sprung").exists()


GOOD = {"x_train": image_array(12, 8, 8), "y_train": labels_of(12)}
FLOATS = image_array(12, 8, 8) / 255


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"x_train": None}, "no array 'x_train'"),
        ({"y_train": None}, "no array 'y_train'"),
        ({"x_test": image_array(3, 8, 8)}, "no array 'y_test'"),
        ({"x_train": image_array(12)}, "shape"),
        ({"x_train": image_array(12, 8, 8, 2)}, "shape"),
        ({"x_train": image_array(0, 8, 8)}, "shape"),
        ({"x_train": np.where(FLOATS > 0.9, np.nan, FLOATS)}, "NaN"),
        ({"x_train": FLOATS - 0.5}, "range from -0.5"),
        ({"x_train": image_array(12, 8, 8).astype(np.int64) * 1000}, "0 to 255"),
        ({"x_train": np.array([["a"]] * 12)}, "numbers"),
        ({"y_train": labels_of(12).astype(float)}, "whole numbers"),
        ({"y_train": labels_of(12) - 1}, "from -1 to 0"),
        ({"y_train": labels_of(12) * 2_000_000_000}, "class 1 has no training image"),
        ({"y_train": np.full(12, 2**63, dtype=np.uint64)}, "count from 0"),
        ({"y_train": labels_of(12)[:, None].repeat(2, 1)}, "one label per image"),
        ({"y_train": labels_of(11)}, "12 images but y_train has 11"),
        ({"y_train": np.zeros(12, dtype=int)}, "needs two or more"),
        ({"x_test": image_array(3, 8, 8), "y_test": np.array([0, 1, 2])}, "go up to 2"),
    ],
)
def test_bad_npz(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    arrays = {name: array for name, array in {**GOOD, **changes}.items() if array is not None}
    with pytest.raises(UserError, match=sentence) as caught:
        load_npz(tmp_path, **arrays)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04 cut short"])
def test_damaged_npz(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "data.npz").write_bytes(content)
    with pytest.raises(UserError, match=r"data\.npz"):
        load_data(DataConfig(format="npz", path="data.npz"), tmp_path, 0)


def test_truncated_npz(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "whole.npz", **GOOD)  # type: ignore[arg-type]
    content = (tmp_path / "whole.npz").read_bytes()
    for length in range(0, len(content), 97):
        (tmp_path / "data.npz").write_bytes(content[:length])
        with pytest.raises(UserError, match=r"data\.npz"):
            load_data(DataConfig(format="npz", path="data.npz"), tmp_path, 0)


@pytest.mark.parametrize("header", [b"{'descr': '|u1', 'fortran_order'", b"[" * 60_000])
def test_a_header_that_cannot_be_parsed_is_named(tmp_path: Path, header: bytes) -> None:
    with zipfile.ZipFile(tmp_path / "data.npz", "w") as archive:
        archive.writestr("x_train.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
    with pytest.raises(UserError, match=r"is not a sound \.npz file"):
        load_data(DataConfig(format="npz", path="data.npz"), tmp_path, 0)


def test_a_bare_array_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "data.npy", image_array(3, 8, 8))
    with pytest.raises(UserError, match="bare array"):
        load_data(DataConfig(format="npz", path="data.npy"), tmp_path, 0)


@pytest.mark.parametrize("form", ["npz", "folder", "idx", "cifar10", "cifar100"])
def test_the_path_is_named_when_it_is_missing_or_wrong(tmp_path: Path, form: Any) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    wrong = "folder" if form == "npz" else "file"
    for path in ("", "nowhere", wrong, "nul\0byte", "x" * 5000):
        with pytest.raises(UserError, match=r"\[data\] path"):
            load_data(DataConfig(format=form, path=path), tmp_path, 0)


def idx_bytes(array: np.ndarray[Any, Any]) -> bytes:
    """The format as yann.lecun.com described it."""
    return (
        bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.astype(np.uint8).tobytes()
    )


def write_mnist(
    folder: Path, images: np.ndarray[Any, Any], labels: np.ndarray[Any, Any], test: int, zipped: bool
) -> None:
    for part, where in (("train", slice(test, None)), ("t10k", slice(0, test))):
        for name, array in ((f"{part}-images-idx3-ubyte", images[where]), (f"{part}-labels-idx1-ubyte", labels[where])):
            content = idx_bytes(array)
            (folder / (name + ".gz" * zipped)).write_bytes(gzip.compress(content) if zipped else content)


IDX = DataConfig(format="idx", path=".", resolution=28)


@pytest.mark.parametrize("zipped", [False, True])
def test_idx_files_plain_and_gzipped(tmp_path: Path, zipped: bool) -> None:
    images, labels = image_array(30, 28, 28), labels_of(30, 3)
    write_mnist(tmp_path, images, labels, 6, zipped)
    data = load_data(IDX, tmp_path, 0)
    assert data.labels == ("0", "1", "2") and len(data.test) == 6 and len(data.train_all) == 24
    for position in range(6):
        image, label = data.test[position]
        np.testing.assert_array_equal(image[0].numpy(), images[position])
        assert label == labels[position]
    assert data.train_all[5][1] == labels[11]
    (tmp_path / "t10k-images-idx3-ubyte").with_suffix(".gz" * zipped).unlink()
    with pytest.raises(UserError, match="t10k-images"):
        load_data(IDX, tmp_path, 0)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("train-images-idx3-ubyte", b"\0\0\x08\x01\0\0\0\x02ab", "is not an idx file"),
        ("train-images-idx3-ubyte", b"\0\0", "is not an idx file"),
        ("train-images-idx3-ubyte", idx_bytes(image_array(24, 28, 28))[:-1], "announces 24 x 28 x 28"),
        ("train-images-idx3-ubyte", b"\0\0\x08\x03" + b"\xff" * 12 + b"abc", "damaged"),
        ("train-labels-idx1-ubyte", idx_bytes(labels_of(23)), "24 images but .* 23 labels"),
        ("train-labels-idx1-ubyte", idx_bytes(labels_of(24) * 200), "class 1 has no training image"),
    ],
)
def test_bad_idx(tmp_path: Path, name: str, content: bytes, sentence: str) -> None:
    write_mnist(tmp_path, image_array(30, 28, 28), labels_of(30), 6, zipped=False)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=sentence) as caught:
        load_data(IDX, tmp_path, 0)
    assert "train-" in str(caught.value) or "class" in str(caught.value)


def test_a_cut_gzip_is_named(tmp_path: Path) -> None:
    write_mnist(tmp_path, image_array(30, 28, 28), labels_of(30), 6, zipped=True)
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UserError, match=r"train-images.* is not a whole gzip"):
        load_data(IDX, tmp_path, 0)
