"""The images a network is trained, judged and tested on: loaded by format, cut into parts, served in batches."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from pipeline.config import DataConfig
from pipeline.data.labels import check_classes, rename_classes
from pipeline.data.loader import Batch, batches, count_batches
from pipeline.data.pool import GLIMPSED, SAMPLE, Fingerprint, ImageSet, Pool, Statistics, measure
from pipeline.data.splits import Split, require_every_class, split
from pipeline.errors import UserError
from pipeline.rundir import expand_home

__all__ = ["Batch", "ImageData", "ImageSet", "batches", "count_batches", "load_data", "load_pool"]

# beyond this many images the record holds a hash of the numbers instead of the numbers
_LISTED_INDICES = 100_000


@dataclass(frozen=True, eq=False)
class ImageData:
    """A data set cut into parts; the parts are disjoint and `train_all` is `train` with `validation`."""

    config: DataConfig
    seed: int
    labels: tuple[str, ...]
    pool: Pool
    split: Split
    measured_images: int = SAMPLE
    """So many images at most, evenly spaced, give mean and standard deviation."""

    @property
    def classes(self) -> int:
        return len(self.labels)

    @property
    def in_channels(self) -> int:
        return self.config.in_channels

    @property
    def resolution(self) -> int:
        return self.config.resolution

    @cached_property
    def train(self) -> ImageSet:
        """What the weights learn from during the search."""
        return self._part(self.split.train)

    @cached_property
    def validation(self) -> ImageSet:
        """What the architecture learns from during the search."""
        return self._part(self.split.validation)

    @cached_property
    def train_all(self) -> ImageSet:
        """Both, for training the network that is deployed."""
        return self._part(self.split.train_all)

    @cached_property
    def test(self) -> ImageSet:
        """Never seen before the end."""
        return self._part(self.split.test)

    @property
    def mean(self) -> tuple[float, ...]:
        return self.statistics.mean

    @property
    def std(self) -> tuple[float, ...]:
        return self.statistics.std

    @cached_property
    def statistics(self) -> Statistics:
        """Over training and validation images, so that they are the same whatever the seed; never over test images."""
        return measure(self.pool.images, self.split.train_all, self.measured_images)

    def glimpse(self) -> "ImageData":
        """The same sizes and splits, with a few images in the place of all: to time steps, not for results."""
        pool = replace(self.pool, images=self.pool.images.glimpse())
        return replace(self, pool=pool, measured_images=GLIMPSED)

    @cached_property
    def fingerprint(self) -> Fingerprint:
        return self.pool.fingerprint()

    @property
    def data_hash(self) -> str:
        """sha256 of the data as it lies on disk."""
        return self.fingerprint.sha256

    def split_record(self) -> dict[str, Any]:
        """Which images are in which part, as numbers into the data in order (training, validation, test files)."""
        return {
            "format": self.config.format,
            "data_hash": self.fingerprint.sha256,
            "hash_over": self.fingerprint.over,
            "seed": self.seed,
            "images": len(self.pool.targets),
            "labels": list(self.labels),
            **{name: _record_part(indices, len(self.pool.targets)) for name, indices in self.split._asdict().items()},
        }

    def _part(self, indices: Tensor) -> ImageSet:
        return ImageSet(self.pool.images, self.pool.targets, indices, lambda: self.statistics)


def load_data(config: DataConfig, folder: Path, seed: int) -> ImageData:
    """The data of the configuration whose file is in `folder`; the seed picks validation images, not test images.

    Folders are only listed here; their images are decoded, and damaged ones found, on first use (`mean`, `batches`).
    """
    pool = _load_pool(config, folder)
    name = config.path or config.format
    check_classes(pool.labels, pool.targets, pool.given.train, name, config.classes)
    parts = split(pool.targets, pool.given, config.validation_share, config.test_share, seed)
    require_every_class(parts, pool.targets, pool.given, pool.labels, name)
    return ImageData(config, seed, rename_classes(pool.labels, config.class_names), pool, parts)


def _load_pool(config: DataConfig, folder: Path) -> Pool:
    if config.format == "digits":
        from pipeline.data.digits import load_digits

        if config.path:
            raise UserError(
                f"[data] path = {config.path!r}, but format = 'digits' is built in and reads no file; "
                "set [data] format to that of your data, or path to ''"
            )
        return load_digits(config)
    return load_pool(config, _find_path(config, folder))


def load_pool(config: DataConfig, path: Path) -> Pool:
    """What the loader of the format finds at a path."""
    from pipeline.data.cifar import load_cifar
    from pipeline.data.folder import load_folder
    from pipeline.data.idx import load_idx
    from pipeline.data.npz import load_npz

    loaders: dict[str, Callable[[DataConfig, Path], Pool]] = {
        "npz": load_npz,
        "folder": load_folder,
        "idx": load_idx,
        "cifar10": load_cifar,
        "cifar100": load_cifar,
    }
    return loaders[config.format](config, path)


def _find_path(config: DataConfig, folder: Path) -> Path:
    if not config.path:
        raise UserError(f"[data] path is not set; the format {config.format!r} needs the path of its data")
    path = folder / expand_home(config.path, "[data] path")
    wanted = "file" if config.format == "npz" else "folder"
    try:
        exists, fits = path.exists(), path.is_file() if wanted == "file" else path.is_dir()
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path}: {getattr(error, 'strerror', None) or error} ([data] path)") from None
    if not exists:
        raise UserError(f"there is no {path}; set [data] path to the {wanted} with the data")
    if not fits:
        raise UserError(f"{path} is not a {wanted}; the format {config.format!r} needs one ([data] path)")
    return path


def _record_part(indices: Tensor, images: int) -> dict[str, Any]:
    if images <= _LISTED_INDICES:
        return {"count": len(indices), "indices": indices.tolist()}
    return {"count": len(indices), "indices_sha256": hashlib.sha256(indices.numpy().tobytes()).hexdigest()}
