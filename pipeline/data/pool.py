"""All images of a data set in one numbered pool, and the parts that are cut out of it."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Protocol

import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

from pipeline.errors import UserError
from pipeline.whole_files import sha256_of

SAMPLE, GLIMPSED = 10_000, 64
"""Images that mean and deviation are taken over at most, and those that stand for all in a glimpse."""


class Images(Protocol):
    """Images by number, all of one shape."""

    @property
    def channels(self) -> int: ...

    @property
    def resolution(self) -> int: ...

    def take(self, indices: Tensor) -> Tensor:
        """uint8 [len(indices), channels, resolution, resolution]."""
        ...

    def original(self, index: int) -> Image.Image:
        """The image in RGB before it was resized, for augmentations that crop out of it."""
        ...

    def name(self, index: int) -> str | None:
        """The file of an image, if it has one."""
        ...

    def prepare(self) -> None:
        """Fill caches, so that worker processes inherit them."""
        ...

    def glimpse(self) -> "Images":
        """As many images, of which a few stand for all where looking at all would take long."""
        ...


@dataclass(frozen=True, eq=False)
class TensorImages:
    """Images in memory."""

    pixels: Tensor

    @property
    def channels(self) -> int:
        return self.pixels.shape[1]

    @property
    def resolution(self) -> int:
        return self.pixels.shape[2]

    def take(self, indices: Tensor) -> Tensor:
        return self.pixels[indices]

    def original(self, index: int) -> Image.Image:
        return Image.fromarray(self.pixels[index].permute(1, 2, 0).squeeze(-1).numpy()).convert("RGB")

    def name(self, index: int) -> None:
        """It came in an array."""

    def prepare(self) -> None:
        """Nothing to fill."""

    def glimpse(self) -> "TensorImages":
        return self


class Given(NamedTuple):
    """How many images come as training, validation and test set, in this order in the pool; 0 where none is given."""

    train: int
    validation: int
    test: int


class Fingerprint(NamedTuple):
    """A hash of the data, and what it was taken over."""

    sha256: str
    over: str


@dataclass(frozen=True, eq=False)
class Pool:
    """What a loader found; `fingerprint` is only called when asked for, since it reads everything."""

    images: Images
    targets: Tensor
    labels: tuple[str, ...]
    given: Given
    fingerprint: Callable[[], Fingerprint]


class Statistics(NamedTuple):
    """Per channel, in units of [0, 1]."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class ImageSet(Dataset[tuple[Tensor, int]]):
    """The images of a pool with the numbers in `indices`: (uint8 [C, R, R], label)."""

    images: Images
    targets: Tensor
    indices: Tensor
    reference: Callable[[], Statistics]

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, position: int) -> tuple[Tensor, int]:
        index = self.indices[position]
        return self.images.take(index[None])[0], int(self.targets[index])

    @cached_property
    def fill(self) -> Tensor:
        """The mean colour of the training images, which cutout paints with; uint8 [C, 1, 1]."""
        return (torch.tensor(self.reference().mean) * 255).round().to(torch.uint8).view(-1, 1, 1)


_STATISTICS_CHUNK = 256
# a constant channel must not make the network divide by zero
_LEAST_STD = 1 / 255


def measure(images: Images, indices: Tensor, at_most: int = SAMPLE) -> Statistics:
    """Mean and standard deviation over the pixels of the images, of evenly spaced ones if there are more."""
    stride = -(-len(indices) // at_most)
    totals, squares, count = torch.zeros(1), torch.zeros(1), 0
    for chunk in torch.split(indices[::stride], _STATISTICS_CHUNK):
        pixels = images.take(chunk).to(torch.float64) / 255
        totals = totals + pixels.sum((0, 2, 3))
        squares = squares + pixels.square().sum((0, 2, 3))
        count += pixels[:, 0].numel()
    mean = totals / count
    std = (squares / count - mean.square()).clamp_min(0).sqrt().clamp_min(_LEAST_STD)
    return Statistics(tuple(mean.tolist()), tuple(std.tolist()))


def hash_files(root: Path, files: list[Path], content_limit_bytes: int | None = None) -> Fingerprint:
    """sha256 over the names and contents of the files, or over names and sizes where they exceed the limit."""
    try:
        sizes = {file: file.stat().st_size for file in files}
        whole = content_limit_bytes is None or sum(sizes.values()) <= content_limit_bytes
        digest = hashlib.sha256()
        for file in files:
            if not file.is_file():  # a device would be read for ever
                raise UserError(f"{file} is not a file; replace it or delete it")
            mark = sha256_of(file) if whole else str(sizes[file])
            digest.update(f"{file.relative_to(root).as_posix()}\0{mark}\n".encode("utf-8", "surrogateescape"))
    except OSError as error:
        raise UserError(f"cannot read {error.filename}: {error.strerror}") from None
    return Fingerprint(digest.hexdigest(), "contents" if whole else "names and sizes")
