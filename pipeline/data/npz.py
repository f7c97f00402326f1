"""numpy archives with x_train, y_train and, if there is a test set, x_test, y_test; nothing in them is unpickled."""

import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pipeline.config import DataConfig
from pipeline.data.labels import number_classes
from pipeline.data.pixels import as_tensor, fit_images
from pipeline.data.pool import Given, Pool, TensorImages, hash_files
from pipeline.errors import UserError
from pipeline.memory import require_memory

Array = np.ndarray[Any, Any]
_UNREADABLE = (
    *(ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error, MemoryError),
    NotImplementedError,  # no stub: zipfile raises it for a compression that it does not know
    *(SyntaxError, tokenize.TokenError, RecursionError),  # numpy: an array's header is a literal of Python
)


def load_npz(config: DataConfig, path: Path) -> Pool:
    """Images [N, H, W], [N, H, W, C] or [N, C, H, W] of 0 to 255 or 0 to 1; labels 0 to classes - 1."""
    arrays = _read(path)
    parts = ["train", "test"] if {"x_test", "y_test"} & set(arrays) else ["train"]
    for name in [f"{axis}_{part}" for part in parts for axis in "xy"]:
        if name not in arrays:
            raise UserError(f"{path} has no array {name!r}; it needs x_train and y_train, and x_test with y_test")
    images = [_read_images(arrays[f"x_{part}"], f"x_{part} in {path}") for part in parts]
    targets = [_read_labels(arrays[f"y_{part}"], f"y_{part} in {path}") for part in parts]
    for part, pixels, numbers in zip(parts, images, targets, strict=True):
        if len(pixels) != len(numbers):
            raise UserError(f"x_{part} has {len(pixels)} images but y_{part} has {len(numbers)} labels, in {path}")
    scale = _scale(images, path)
    fitted = torch.cat([fit_images(pixels, config.resolution, config.colour, scale) for pixels in images])
    counts = [len(numbers) for numbers in targets]
    return Pool(
        TensorImages(fitted),
        torch.cat(targets),
        number_classes(targets[0], torch.cat(targets), str(path)),
        Given(counts[0], 0, counts[1] if len(counts) > 1 else 0),
        lambda: hash_files(path.parent, [path]),
    )


def _read(path: Path) -> dict[str, Array]:
    wanted = ("x_train", "y_train", "x_test", "y_test")
    name = "the archive"
    try:
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise UserError(f"{path} holds one bare array; save x_train and y_train with numpy.savez ([data] path)")
        with archive:
            require_memory(_announced_bytes(path, wanted), f"reading {path}", "the number of images")
            arrays = {}
            for name in wanted:
                if name in archive:
                    arrays[name] = _require_array(archive[name])
            return arrays
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from None
    except _UNREADABLE as error:
        if "Object arrays" in str(error):
            raise UserError(
                f"{name} in {path} holds Python objects, which are never loaded; save plain numbers with numpy.savez"
            ) from None
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"{path} is not a sound .npz file ({name}: {reason})") from None


def _announced_bytes(path: Path, names: tuple[str, ...]) -> int:
    """What the arrays will take in memory; a small archive may hold gigabytes."""
    with zipfile.ZipFile(path) as archive:
        return sum(entry.file_size for entry in archive.infolist() if Path(entry.filename).stem in names)


def _require_array(found: Any) -> Array:
    """What numpy has read; of a member that is no array it hands out the raw bytes."""
    if not isinstance(found, np.ndarray):
        raise ValueError("raw bytes instead of an array")
    return found


def _read_images(array: Array, where: str) -> Tensor:
    """[N, C, H, W]."""
    if array.dtype.kind not in "uif":
        raise UserError(f"{where} must hold numbers, not {array.dtype}")
    if array.ndim == 3:
        array = array[:, None]
    elif array.ndim == 4 and array.shape[3] in (1, 3):
        array = array.transpose(0, 3, 1, 2)
    if array.ndim != 4 or array.shape[1] not in (1, 3) or 0 in array.shape:
        raise UserError(
            f"{where} has the shape {array.shape}; wanted are images [N, height, width] or [N, height, width, 1 or 3]"
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise UserError(f"{where} contains NaN or infinite values")
    return as_tensor(array if array.dtype == np.uint8 else array.astype(np.float32))


def _read_labels(array: Array, where: str) -> Tensor:
    if array.dtype.kind not in "ui":
        raise UserError(f"{where} must hold whole numbers (class 0, 1, 2, …), not {array.dtype}")
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or not len(array):
        raise UserError(f"{where} has the shape {array.shape}; wanted is one label per image, [N]")
    if array.min() < 0 or array.max() > np.iinfo(np.int32).max:
        raise UserError(f"{where} has labels from {array.min()} to {array.max()}; they must count from 0")
    return as_tensor(array.astype(np.int64))


def _scale(images: list[Tensor], path: Path) -> float:
    """What brings the values to 0..255; one for training and test images."""
    low, high = min(float(x.min()) for x in images), max(float(x.max()) for x in images)
    if low < 0 or high > 255:
        raise UserError(f"the images in {path} range from {low:g} to {high:g}; wanted is 0 to 255 or 0 to 1")
    return 255.0 if high <= 1 else 1.0
