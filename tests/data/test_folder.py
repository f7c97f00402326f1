"""Image folders, with real files of every kind that Pillow can write."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from pipeline.config import DataConfig
from pipeline.data import batches, folder, load_data
from pipeline.data.decode import ImageRefused, decode
from pipeline.data.folder import FileImages
from pipeline.data.pool import GLIMPSED, hash_files
from pipeline.errors import UserError

RANDOM = np.random.default_rng(2)
FOLDER = DataConfig(format="folder", path=".", resolution=8, colour=True)


def noise(*shape: int) -> np.ndarray[Any, Any]:
    return RANDOM.integers(0, 256, shape, dtype=np.uint8)


def write(path: Path, array: np.ndarray[Any, Any] | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(noise(8, 8, 3) if array is None else array).save(path)


def write_classes(root: Path, *labels: str, count: int = 8) -> None:
    for label in labels:
        for number in range(count):
            write(root / label / f"{number}.png")


def test_classes_are_folders_and_pixels_those_of_the_files(tmp_path: Path) -> None:
    write_classes(tmp_path, "cat", "dog")
    (tmp_path / "cat" / "notes.txt").write_text("no image")
    (tmp_path / "cat" / ".hidden.png").write_text("no image")
    data = load_data(FOLDER, tmp_path, 0)
    assert data.labels == ("cat", "dog") and data.in_channels == 3
    names = sorted(path for path in tmp_path.rglob("[0-9]*.png"))
    assert sum(map(len, (data.train, data.validation, data.test))) == len(names) == 16
    for part in (data.train, data.validation, data.test):
        for position, index in enumerate(part.indices.tolist()):
            image, label = part[position]
            np.testing.assert_array_equal(image.permute(1, 2, 0).numpy(), np.asarray(Image.open(names[index])))
            assert data.labels[label] == names[index].parent.name


def test_nested_classes_are_named_by_their_path(tmp_path: Path) -> None:
    write_classes(tmp_path, "animals/cat", "animals/dog", "cars", "cars/more of them", count=6)
    data = load_data(FOLDER, tmp_path, 0)
    assert data.labels == ("animals/cat", "animals/dog", "cars")
    assert torch.bincount(data.pool.targets).tolist() == [6, 6, 12]


@pytest.mark.parametrize("test", ["test", "val", "Test"])
def test_train_and_test_folders_are_the_split(tmp_path: Path, test: str) -> None:
    write_classes(tmp_path / "train", "a", "b", count=6)
    write_classes(tmp_path / test, "a", "b", count=2)
    data = load_data(FOLDER, tmp_path, 0)
    assert data.labels == ("a", "b")
    assert (len(data.train), len(data.validation), len(data.test)) == (6, 6, 4)
    assert {data.pool.images.files[i].parts[-3] for i in data.test.indices.tolist()} == {test}  # type: ignore[attr-defined]


def test_three_given_parts(tmp_path: Path) -> None:
    for part, count in (("train", 5), ("val", 3), ("test", 2)):
        write_classes(tmp_path / part, "a", "b", count=count)
    data = load_data(FOLDER, tmp_path, 0)
    assert (len(data.train), len(data.validation), len(data.test)) == (10, 6, 4)


def test_a_class_may_be_called_train(tmp_path: Path) -> None:
    write_classes(tmp_path, "train", "plane")
    assert load_data(FOLDER, tmp_path, 0).labels == ("plane", "train")


def test_only_a_train_folder(tmp_path: Path) -> None:
    write_classes(tmp_path / "train", "a", "b")
    data = load_data(FOLDER, tmp_path, 0)
    assert data.labels == ("a", "b") and len(data.test) > 0


def test_links_are_followed_and_loops_left(tmp_path: Path) -> None:
    write_classes(tmp_path / "elsewhere", "x")
    root = tmp_path / "root"
    write_classes(root, "a")
    (root / "b").symlink_to(tmp_path / "elsewhere" / "x")
    (root / "a" / "loop").symlink_to(root)
    data = load_data(FOLDER, root, 0)
    assert data.labels == ("a", "b") and len(data.pool.targets) == 16


def square_in_corner() -> np.ndarray[Any, Any]:
    picture = np.zeros((8, 8), dtype=np.uint8)
    picture[:4, :4] = 200
    return picture


@pytest.mark.parametrize(("orientation", "corner"), [(1, (0, 0)), (3, (4, 4)), (6, (0, 4)), (8, (4, 0))])
def test_exif_orientation_turns_the_image_upright(tmp_path: Path, orientation: int, corner: tuple[int, int]) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(square_in_corner()).save(tmp_path / "turned.png", exif=exif)
    expected = np.zeros((8, 8), dtype=np.uint8)
    expected[corner[0] : corner[0] + 4, corner[1] : corner[1] + 4] = 200
    np.testing.assert_array_equal(decode(tmp_path / "turned.png", 8, colour=False)[0], expected)


def test_every_kind_of_pixel_becomes_the_same_picture(tmp_path: Path) -> None:
    grey = square_in_corner()
    picture = Image.fromarray(grey)
    kinds = {
        "grey.png": picture,
        "colour.png": picture.convert("RGB"),
        "palette.png": picture.convert("RGB").quantize(4),
        "palette.gif": picture.convert("P"),
        "sixteen.png": Image.fromarray(grey.astype(np.uint16) * 257),
        "sixteen.tif": Image.fromarray(grey.astype(np.uint16) * 257),
        "wide.tif": Image.fromarray(grey.astype(np.int32) * 257),
        "lossless.webp": picture.convert("RGB"),
        "cmyk.tif": picture.convert("RGB").convert("CMYK"),
    }
    for name, image in kinds.items():
        image.save(tmp_path / name, lossless=True)
        np.testing.assert_array_equal(decode(tmp_path / name, 8, colour=False)[0], grey, err_msg=name)
        np.testing.assert_array_equal(decode(tmp_path / name, 8, colour=True), np.stack([grey] * 3), err_msg=name)
    picture.point(lambda value: 255 * (value > 100)).convert("1").save(tmp_path / "bits.png")
    np.testing.assert_array_equal(decode(tmp_path / "bits.png", 8, colour=False)[0], (grey > 100) * 255)


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_transparent_pixels_lie_on_white(tmp_path: Path, mode: str) -> None:
    image = Image.fromarray(square_in_corner()).convert(mode)
    image.putalpha(Image.fromarray((square_in_corner() > 0).astype(np.uint8) * 255))
    image.save(tmp_path / "clear.png")
    expected = np.where(square_in_corner() > 0, 200, 255)
    np.testing.assert_array_equal(decode(tmp_path / "clear.png", 8, colour=False)[0], expected)


def test_a_rectangle_is_cropped_to_its_centre_and_a_large_jpeg_averaged(tmp_path: Path) -> None:
    wide = np.zeros((8, 24), dtype=np.uint8)
    wide[:, 8:16] = noise(8, 8)
    write(tmp_path / "wide.png", wide)
    np.testing.assert_array_equal(decode(tmp_path / "wide.png", 8, colour=False)[0], wide[:, 8:16])
    smooth = np.linspace(0, 255, 512).astype(np.uint8)[None].repeat(512, 0)
    Image.fromarray(smooth).save(tmp_path / "large.jpg", quality=95)
    expected = smooth[0].reshape(8, 64).mean(1)
    # the outermost pixels have no neighbour on one side
    assert np.abs(decode(tmp_path / "large.jpg", 8, colour=False)[0][:, 1:-1] - expected[1:-1]).max() < 3


def test_an_image_set_beyond_memory_reads_the_same(tmp_path: Path) -> None:
    write_classes(tmp_path, "a", "b")
    files = sorted(tmp_path.rglob("*.png"))
    kept, lazy = FileImages(files, 8, True), FileImages(files, 8, True, cache_bytes=10)
    indices = torch.tensor([3, 1, 9])
    assert kept.take(indices).equal(lazy.take(indices))
    for file in files:
        file.unlink()
    kept.take(indices)
    with pytest.raises(UserError, match=r"3\.png is gone"):
        lazy.take(indices)


def test_the_hash_follows_contents_not_times(tmp_path: Path) -> None:
    write_classes(tmp_path, "a", "b")
    files = sorted(tmp_path.rglob("*.png"))
    first = hash_files(tmp_path, files)
    os.utime(files[0], (0, 0))
    assert hash_files(tmp_path, files) == first and first.over == "contents"
    content = bytearray(files[0].read_bytes())
    content[-1] ^= 1
    files[0].write_bytes(content)
    assert hash_files(tmp_path, files).sha256 != first.sha256
    assert hash_files(tmp_path, files, content_limit_bytes=100).over == "names and sizes"
    (tmp_path / "endless.png").symlink_to("/dev/zero")
    with pytest.raises(UserError, match=r"endless\.png is not a file"):
        hash_files(tmp_path, [*files, tmp_path / "endless.png"])


def test_bad_folders(tmp_path: Path) -> None:
    def refused(name: str) -> str:
        with pytest.raises(UserError) as caught:
            load_data(FOLDER.model_copy(update={"path": name}), tmp_path, 0)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    (tmp_path / "empty" / "cat").mkdir(parents=True)
    assert "there is no image" in refused("empty")
    write_classes(tmp_path / "single", "cat")
    assert "1 class ('cat')" in refused("single")
    write_classes(tmp_path / "loose", "cat", "dog")
    write(tmp_path / "loose" / "stray.png")
    assert "stray.png is in no class folder" in refused("loose")
    write_classes(tmp_path / "unlabelled", "train", "test")
    assert "is in no class folder" in refused("unlabelled")
    write_classes(tmp_path / "extra" / "train", "a", "b")
    write_classes(tmp_path / "extra" / "test", "a", "c")
    assert "'c', which has no training image" in refused("extra")
    write_classes(tmp_path / "few", "a", "b", count=1)
    assert "give each 3 or more images" in refused("few")
    write_classes(tmp_path / "nothing to learn" / "test", "a", "b")
    assert "train folder" in refused("nothing to learn")


def test_an_unreadable_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_classes(tmp_path, "a", "b")

    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("os.scandir", refuse)
    with pytest.raises(UserError, match=r"cannot read .*Permission denied \(\[data\] path\)"):
        load_data(FOLDER, tmp_path, 0)


@pytest.mark.parametrize("suffix", ["png", "jpg", "gif", "tif", "webp", "bmp"])
def test_damaged_images_are_named_before_training(tmp_path: Path, suffix: str) -> None:
    write_classes(tmp_path, "a", "b")
    victim = tmp_path / "b" / f"victim.{suffix}"
    write(victim, noise(64, 64, 3))
    victim.write_bytes(victim.read_bytes()[: victim.stat().st_size // 2])
    data = load_data(FOLDER, tmp_path, 0)
    with pytest.raises(UserError, match=rf"victim\.{suffix} is damaged") as caught:
        _ = data.mean
    assert "\n" not in str(caught.value)


def test_all_damaged_images_are_listed_at_once(tmp_path: Path) -> None:
    write_classes(tmp_path, "a", "b", count=20)
    for number in range(12):
        for label in ("a", "b"):
            (tmp_path / label / f"{number}.png").write_bytes(b"no image")
    with pytest.raises(UserError) as caught:
        load_data(FOLDER, tmp_path, 0).pool.images.prepare()
    first, *listed, last = str(caught.value).splitlines()
    assert first == "24 images cannot be used:" and last.strip() == "… and 4 more"
    assert len(listed) == 20 and all("is damaged" in line for line in listed)


@pytest.mark.parametrize("content", [b"", b"<svg/>"])
def test_files_that_are_no_images_are_named_from_a_worker_too(tmp_path: Path, content: bytes) -> None:
    write_classes(tmp_path, "a", "b")
    (tmp_path / "b" / "victim.png").write_bytes(content)
    data = load_data(FOLDER, tmp_path, 0)
    data.pool.images.fits = False  # type: ignore[attr-defined]
    with pytest.raises(UserError, match=r"^the image \S*victim\.png is damaged"):
        for part in (data.train_all, data.test):
            list(batches(part, 4, seed=0, epoch=0, workers=1))


def test_floating_point_pixels_are_refused(tmp_path: Path) -> None:
    Image.fromarray(np.zeros((8, 8), dtype=np.float32)).save(tmp_path / "float.tif")
    with pytest.raises(ImageRefused, match="floating-point"):
        decode(tmp_path / "float.tif", 8, colour=False)


@pytest.mark.parametrize("cache_bytes", [1 << 30, 0])
def test_a_glimpse_decodes_a_few_images_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache_bytes: int
) -> None:
    """What fits into memory is decoded once, what does not at every look, as the whole would be."""
    write_classes(tmp_path, "a", "b", count=2 * GLIMPSED)
    monkeypatch.setattr(folder, "_CACHE_BYTES", cache_bytes)
    whole = load_data(DataConfig(format="folder", path=str(tmp_path), resolution=8, colour=True), tmp_path, 0)
    whole.pool.images.fits = cache_bytes > 0  # type: ignore[attr-defined]
    opened: list[Path] = []

    def watched(file: Path, *rest: Any) -> Any:
        opened.append(file)
        return decode(file, *rest)

    monkeypatch.setattr(folder, "decode", watched)
    few = whole.glimpse()
    assert (len(few.train), len(few.validation), few.classes) == (len(whole.train), len(whole.validation), 2)
    assert all(0 < value < 1 for value in few.mean)
    assert len(opened) <= GLIMPSED and len({file.parent for file in opened}) == 2, "of both classes"
    seen = len(opened)
    taken = few.pool.images.take(torch.arange(4 * GLIMPSED))
    assert taken.shape == (4 * GLIMPSED, 3, 8, 8)
    assert len(opened) - seen == (0 if cache_bytes else 4 * GLIMPSED)
