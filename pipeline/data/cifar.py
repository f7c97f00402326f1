"""CIFAR-10 and CIFAR-100 as their authors distribute them: python batches, read by the restricted unpickler."""

import pickle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pipeline.config import DataConfig
from pipeline.data.pixels import as_tensor, fit_images
from pipeline.data.pool import Given, Pool, TensorImages, hash_files
from pipeline.data.unpickle import unpickle
from pipeline.errors import UserError
from pipeline.whole_files import read_regular

_ROW = 3 * 32 * 32


class _Layout(NamedTuple):
    folder: str
    train: tuple[str, ...]
    test: str
    meta: str
    labels: str
    names: str


_LAYOUTS = {
    "cifar10": _Layout(
        "cifar-10-batches-py",
        tuple(f"data_batch_{number}" for number in range(1, 6)),
        "test_batch",
        "batches.meta",
        "labels",
        "label_names",
    ),
    "cifar100": _Layout("cifar-100-python", ("train",), "test", "meta", "fine_labels", "fine_label_names"),
}


class _Batch(NamedTuple):
    images: Tensor
    targets: Tensor


def load_cifar(config: DataConfig, folder: Path) -> Pool:
    """The batches in `folder`, or in the sub-folder that the archive unpacks to."""
    layout = _LAYOUTS[config.format]
    root = folder / layout.folder if (folder / layout.folder).is_dir() else folder
    files = [root / name for name in (*layout.train, layout.test)]
    labels = _read_names(root / layout.meta, layout.names)
    batches = [_read_batch(file, layout.labels, len(labels), config) for file in files]
    test_count = len(batches[-1].targets)
    targets = torch.cat([batch.targets for batch in batches])
    return Pool(
        TensorImages(torch.cat([batch.images for batch in batches])),
        targets,
        labels,
        Given(len(targets) - test_count, 0, test_count),
        lambda: hash_files(root, [*files, root / layout.meta]),
    )


def _read_batch(path: Path, labels: str, classes: int, config: DataConfig) -> _Batch:
    record = _read(path)
    data, numbers = record.get("data"), record.get(labels)
    if (
        not isinstance(data, np.ndarray)
        or data.dtype != np.uint8
        or data.ndim != 2
        or data.shape[1] != _ROW
        or not len(data)
    ):
        raise UserError(f"{path} is not a CIFAR batch: its 'data' is not an array of bytes, {_ROW} per image")
    if isinstance(numbers, np.ndarray) and numbers.dtype.kind in "ui":
        numbers = numbers.tolist()
    if not isinstance(numbers, list) or not all(type(number) is int for number in numbers):
        raise UserError(f"{path} is not a {config.format} batch: it has no list {labels!r} of whole numbers")
    if len(numbers) != len(data):
        raise UserError(f"{path} has {len(data)} images but {len(numbers)} labels")
    if min(numbers) < 0 or max(numbers) >= classes:
        raise UserError(f"{path} has labels from {min(numbers)} to {max(numbers)}, but there are {classes} classes")
    pixels = as_tensor(data.reshape(-1, 3, 32, 32))
    return _Batch(fit_images(pixels, config.resolution, config.colour), torch.tensor(numbers))


def _read_names(path: Path, key: str) -> tuple[str, ...]:
    names = _read(path).get(key)
    if not isinstance(names, list) or not all(isinstance(name, bytes | str) for name in names):
        raise UserError(f"{path} has no list {key!r} of class names")
    return tuple(name.decode("utf-8", "replace") if isinstance(name, bytes) else name for name in names)


def _read(path: Path) -> dict[str, Any]:
    try:
        return unpickle(read_regular(path))
    except FileNotFoundError:
        raise UserError(f"there is no {path}; [data] path must be the folder with the python batches") from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    except pickle.UnpicklingError as error:
        raise UserError(f"{path} is refused: a CIFAR batch holds arrays and lists, this file has {error}") from None
