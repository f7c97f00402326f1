"""A look at the data before hours of work: damaged files, empty folders, class counts, images in two parts."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from PIL import Image
from torch import Tensor

from pipeline.data import ImageData
from pipeline.data.files import find_empty_folders
from pipeline.data.folder import FileImages
from pipeline.data.pool import Images

# of a set beyond memory this many files, evenly spaced, are decoded: seconds, not hours
_SAMPLE = 2000
_CHUNK = 512


class Size(NamedTuple):
    """Pixels of an image file."""

    width: int
    height: int


class Duplicate(NamedTuple):
    """An image that the network would be trained on and tested on."""

    training: str
    test: str


@dataclass(frozen=True)
class DataCheck:
    """What was found. Arrays have no file sizes; duplicates are None where not every image was decoded."""

    labels: tuple[str, ...]
    counts: dict[str, list[int]]
    decoded: int
    sizes: list[Size]
    refusals: list[str]
    empty_folders: list[Path]
    duplicates: list[Duplicate] | None


def check_data(data: ImageData) -> DataCheck:
    """All that can be known of the images without training on them."""
    images, targets, split = data.pool.images, data.pool.targets, data.split
    decoded, sizes, refusals, empty_folders = range(len(targets)), [], [], []
    if isinstance(images, FileImages):
        if not images.fits:
            decoded = range(0, len(targets), -(-len(targets) // _SAMPLE))
        refusals, empty_folders = images.find_refused(decoded), find_empty_folders(images.files)
        sizes = list(_read_sizes([images.files[index] for index in decoded]))
    whole = not refusals and len(decoded) == len(targets)
    return DataCheck(
        data.labels,
        {part: torch.bincount(targets[own], minlength=data.classes).tolist() for part, own in split._asdict().items()},
        len(decoded) - len(refusals),
        sizes,
        refusals,
        empty_folders,
        list(_find_duplicates(images, split.train_all, split.test)) if whole else None,
    )


def _read_sizes(files: list[Path]) -> Iterator[Size]:
    for path in files:
        if not path.is_file():  # opening a pipe would wait for ever
            continue
        try:
            with Image.open(path) as file:
                yield Size(*file.size)
        except Exception:  # it is among the refused ones, which say why
            continue


def _find_duplicates(images: Images, training: Tensor, test: Tensor) -> Iterator[Duplicate]:
    """Test images whose pixels, as the network sees them, are those of a training image."""
    known = {digest: index for index, digest in digests(images, training)}
    for index, digest in digests(images, test):
        if digest in known:
            yield Duplicate(name_image(images, known[digest]), name_image(images, index))


def digests(images: Images, indices: Tensor) -> Iterator[tuple[int, bytes]]:
    """sha256 of the pixels of images, with their numbers."""
    for chunk in torch.split(indices, _CHUNK):
        for index, pixels in zip(chunk.tolist(), images.take(chunk), strict=True):
            yield index, hashlib.sha256(pixels.numpy().tobytes()).digest()


def name_image(images: Images, index: int) -> str:
    """The file of an image, or its number."""
    return images.name(index) or f"image {index}"
