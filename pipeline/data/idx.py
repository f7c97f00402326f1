"""MNIST's idx files, plain or gzipped, in one folder: train-images, train-labels, t10k-images, t10k-labels."""

import gzip
import math
import zlib
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from torch import Tensor

from pipeline.config import DataConfig
from pipeline.data.labels import number_classes
from pipeline.data.pixels import as_tensor, fit_images
from pipeline.data.pool import Given, Pool, TensorImages, hash_files
from pipeline.errors import UserError
from pipeline.memory import require_memory

_UNSIGNED_BYTE = 8
_MOST_COMPRESSED = 1100  # times, by deflate
_TRAIN, _TEST = "train", "t10k"


def load_idx(config: DataConfig, folder: Path) -> Pool:
    """The four files of MNIST, Fashion-MNIST, KMNIST or EMNIST; without the t10k (or test) pair, a test set is cut."""
    parts = [_TRAIN, _TEST] if _find(folder, _TEST, "images") or _find(folder, _TEST, "labels") else [_TRAIN]
    files, images, targets = [], [], []
    for part in parts:
        pair = [_require(folder, part, kind) for kind in ("images", "labels")]
        pixels, labels = read_idx(pair[0], dimensions=3), read_idx(pair[1], dimensions=1)
        if len(pixels) != len(labels):
            raise UserError(f"{pair[0]} has {len(pixels)} images but {pair[1]} has {len(labels)} labels")
        images.append(fit_images(pixels.unsqueeze(1), config.resolution, config.colour))
        targets.append(labels.to(torch.int64))
        files += pair
    names = number_classes(targets[0], torch.cat(targets), str(folder))
    given = Given(len(targets[0]), 0, len(targets[1]) if len(targets) > 1 else 0)
    return Pool(TensorImages(torch.cat(images)), torch.cat(targets), names, given, lambda: hash_files(folder, files))


def read_idx(path: Path, dimensions: int) -> Tensor:
    """The bytes of one file: 0, 0, type, number of dimensions, the sizes as big-endian 32-bit numbers, the values."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            shape = _read_shape(file, path, dimensions)
            announced = math.prod(shape)
            if path.suffix == ".gz":
                require_memory(2 * announced, f"reading {path}", "the number of images")
            content = file.read(min(announced, _most_bytes(path)) + 1)  # and no more: a small .gz may hold gigabytes
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise UserError(f"{path} is not a whole gzip file; download it again") from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    if announced != len(content) or not announced:
        held = len(content) if len(content) <= announced else "more"
        raise UserError(
            f"{path} is damaged: its header announces {' x '.join(map(str, shape))} bytes, but it holds {held}"
        )
    return as_tensor(np.frombuffer(content, np.uint8).reshape(shape))


def _most_bytes(path: Path) -> int:
    """What a file may hold: its size, or many times that if it is compressed."""
    return path.stat().st_size * (_MOST_COMPRESSED if path.suffix == ".gz" else 1)


def _read_shape(file: BinaryIO | gzip.GzipFile, path: Path, dimensions: int) -> list[int]:
    header = file.read(4 + 4 * dimensions)
    if len(header) < 4 + 4 * dimensions or header[:4] != bytes([0, 0, _UNSIGNED_BYTE, dimensions]):
        raise UserError(
            f"{path} is not an idx file of unsigned bytes with {dimensions} dimension{'s'[: dimensions - 1]}"
        )
    sizes: list[int] = np.frombuffer(header, ">u4", dimensions, offset=4).tolist()
    return sizes


def _find(folder: Path, part: str, kind: str) -> Path | None:
    """The file of this part, the unzipped one if there are both; EMNIST and others put words before the name."""
    names = ("t10k", "test") if part == _TEST else (part,)
    found = {path for name in names for path in folder.glob(f"*{name}-{kind}*idx*") if path.is_file()}
    bodies = {path.name.removesuffix(".gz") for path in found}
    if len(bodies) > 1:
        raise UserError(
            f"{folder} has several files of {part}-{kind} ({', '.join(sorted(bodies))}); keep one set per folder"
        )
    return min(found, key=lambda path: path.suffix == ".gz", default=None)


def _require(folder: Path, part: str, kind: str) -> Path:
    path = _find(folder, part, kind)
    if path is None:
        order = 3 if kind == "images" else 1
        raise UserError(f"there is no {part}-{kind}-idx{order}-ubyte or .gz in {folder} ([data] path)")
    return path
