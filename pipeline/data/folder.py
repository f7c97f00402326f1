"""Image folders, decoded when needed and kept in memory when they fit."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import torch
from PIL import Image
from rich.console import Console
from rich.progress import track
from torch import Tensor

from pipeline.config import DataConfig
from pipeline.console import say
from pipeline.data.decode import ImageRefused, decode, read_image
from pipeline.data.files import find_empty_folders, list_images
from pipeline.data.pool import GLIMPSED, Given, Pool, hash_files
from pipeline.errors import UserError

_CACHE_BYTES = 1 << 30
_HASH_BYTES = 2 << 30
_LISTED = 20
# fewer images are decoded before a progress bar could be read
_SHOW_PROGRESS_FROM = 2000


class FileImages:
    """Images decoded when they are asked for; all of them once and kept, if they fit into memory."""

    def __init__(self, files: list[Path], resolution: int, colour: bool, cache_bytes: int = _CACHE_BYTES) -> None:
        self.files = files
        self.resolution = resolution
        self.channels = 3 if colour else 1
        self.fits = len(files) * self.channels * resolution**2 <= cache_bytes
        self._cache: Tensor | None = None

    def take(self, indices: Tensor) -> Tensor:
        self.prepare()
        if self._cache is not None:
            return self._cache[indices]
        return torch.stack([self._decode(index) for index in indices.tolist()])

    def original(self, index: int) -> Image.Image:
        with _refusing():
            return read_image(self.files[index]).convert("RGB")

    def name(self, index: int) -> str:
        return str(self.files[index])

    def prepare(self) -> None:
        """Decode everything if it fits, so that damaged files are found before hours of training, not amid them."""
        if self._cache is None and self.fits:
            refusals = self.find_refused(range(len(self.files)))
            if refusals:
                raise UserError(describe_refused(refusals))

    def glimpse(self) -> "FewImages":
        return FewImages(self)

    def find_refused(self, indices: range) -> list[str]:
        """Decode these images; a sentence for each that is refused. Without one, all images together are kept."""
        pixels = torch.empty(len(indices), self.channels, self.resolution, self.resolution, dtype=torch.uint8)
        refusals = []
        pool = ThreadPoolExecutor(os.cpu_count())  # Pillow decodes and resizes without holding Python's lock
        try:
            decoded = track(
                pool.map(self._try_to_decode, indices),
                "decoding images",
                total=len(indices),
                console=Console(stderr=True),
                transient=True,
                disable=len(indices) < _SHOW_PROGRESS_FROM,
            )
            for place, image in enumerate(decoded):
                if isinstance(image, str):
                    refusals.append(image)
                else:
                    pixels[place] = image
        finally:
            pool.shutdown(cancel_futures=True)
        if not refusals and len(indices) == len(self.files):
            self._cache = pixels
        return refusals

    def _try_to_decode(self, index: int) -> Tensor | str:
        try:
            return self._decode(index)
        except UserError as error:
            return str(error)

    def _decode(self, index: int) -> Tensor:
        with _refusing():
            return torch.tensor(decode(self.files[index], self.resolution, self.channels == 3))


class FewImages:
    """Files of which some, evenly spaced, stand for all: they take the time of all, once decoded or at every look."""

    def __init__(self, whole: FileImages) -> None:
        files = whole.files[:: -(-len(whole.files) // GLIMPSED)]
        self.resolution, self.channels = whole.resolution, whole.channels
        self._few = FileImages(files, whole.resolution, whole.channels == 3, _CACHE_BYTES if whole.fits else 0)

    def take(self, indices: Tensor) -> Tensor:
        return self._few.take(indices % len(self._few.files))

    def original(self, index: int) -> Image.Image:
        return self._few.original(index % len(self._few.files))

    def name(self, index: int) -> str:
        return self._few.name(index % len(self._few.files))

    def prepare(self) -> None:
        self._few.prepare()

    def glimpse(self) -> "FewImages":
        return self


def describe_refused(sentences: list[str]) -> str:
    """All of them at once, or as many as can be read."""
    if len(sentences) == 1:
        return sentences[0]
    more = [f"… and {len(sentences) - _LISTED} more"] * (len(sentences) > _LISTED)
    return "\n  ".join([f"{len(sentences)} images cannot be used:", *sentences[:_LISTED], *more])


@contextmanager
def _refusing() -> Iterator[None]:
    """The decoder knows nothing of this package; its refusals are the user's to mend."""
    try:
        yield
    except ImageRefused as error:
        raise UserError(str(error)) from None


def load_folder(config: DataConfig, root: Path) -> Pool:
    """The images below `root`, sorted by name; nothing is decoded yet."""
    listing = list_images(root)
    labels = tuple(sorted({file.label for file in listing.train}))
    numbers = {label: number for number, label in enumerate(labels)}
    files = [file for part in listing for file in part]
    for file in files:
        if file.label not in numbers:
            raise UserError(f"{file.path} is of the class {file.label!r}, which has no training image")
    paths = [file.path for file in files]
    for folder in find_empty_folders(paths):
        say(f"{folder} holds no image, so it is no class")
    return Pool(
        FileImages(paths, config.resolution, config.colour),
        torch.tensor([numbers[file.label] for file in files]),
        labels,
        Given(*map(len, listing)),
        lambda: hash_files(root, paths, _HASH_BYTES),
    )
