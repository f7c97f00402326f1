"""Batches whose bits depend on (seed, epoch, rank, batch number) alone, so that training resumes at any batch."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from pipeline.config import Augment
from pipeline.data.augment import PAINTING, PER_IMAGE, augment_batch, augment_image
from pipeline.data.normalization import to_floats
from pipeline.data.pool import ImageSet
from pipeline.errors import PipelineError, UserError
from pipeline.fingerprint import available_cores


class Batch(NamedTuple):
    """Floats in [0, 1], not normalized, [B, C, R, R]; labels and numbers in the pool, int64 [B]."""

    images: Tensor
    labels: Tensor
    indices: Tensor


def count_batches(dataset: ImageSet, batch_size: int, *, world: int = 1, drop_last: bool = False) -> int:
    """Batches per epoch; rank 0 yields this many, and with `drop_last` every rank does."""
    whole, rest = divmod(len(dataset), batch_size * world)
    return whole + (rest > 0 and not drop_last)


def batches(
    dataset: ImageSet,
    batch_size: int,
    *,
    seed: int,
    epoch: int,
    rank: int = 0,
    world: int = 1,
    shuffle: bool = True,
    augment: Augment = "none",
    workers: int = 0,
    device: torch.device | str = "cpu",
    drop_last: bool = False,
    start_batch: int = 0,
) -> Iterator[Batch]:
    """One epoch from batch `start_batch` on; `batch_size` is per rank.

    All ranks share one order: step n takes the next `world * batch_size` images of it, rank r the r-th block of them.
    Without `drop_last` the last step is spread evenly, and a rank that would get nothing yields one batch less:
    leave it out when ranks must step together. Global random generators are neither read nor moved.
    """
    count = count_batches(dataset, batch_size, world=world, drop_last=drop_last)
    if count == 0:
        raise UserError(
            f"a batch of {batch_size * world} is more than the {len(dataset)} images there are; lower batch_size"
        )
    # drawn up here and not in the workers: the mean colour may need thousands of images
    fill = dataset.fill if augment in PAINTING else torch.zeros(1, 1, 1, dtype=torch.uint8)
    plan = _Plan(dataset, batch_size, seed, epoch, rank, world, shuffle, augment, fill)
    return _run(plan, range(start_batch, count), workers, torch.device(device))


def shuffled(dataset: ImageSet, seed: int, epoch: int) -> Tensor:
    """The pool numbers of the images in the order of an epoch, which all ranks share."""
    generator = torch.Generator().manual_seed(derive_seed(seed, epoch))
    return dataset.indices[torch.randperm(len(dataset), generator=generator)]


def _run(plan: "_Plan", numbers: range, workers: int, device: torch.device) -> Iterator[Batch]:
    """Bytes travel to the device, a quarter of what floats would."""
    for raw in _read(plan, numbers, workers, pin=device.type == "cuda"):
        if len(raw.labels):
            pixels = to_floats(raw.images.to(device, non_blocking=True))
            yield Batch(pixels, *(part.to(device, non_blocking=True) for part in raw[1:]))


class _Raw(NamedTuple):
    images: Tensor
    labels: Tensor
    indices: Tensor


@dataclass(frozen=True, eq=False)
class _Plan(Dataset["_Raw | PipelineError"]):
    """The epoch as numbered batches of uint8 images."""

    dataset: ImageSet
    batch_size: int
    seed: int
    epoch: int
    rank: int
    world: int
    shuffle: bool
    augment: Augment
    fill: Tensor

    @cached_property
    def order(self) -> Tensor:
        return shuffled(self.dataset, self.seed, self.epoch) if self.shuffle else self.dataset.indices

    def block(self, number: int) -> Tensor:
        """Pool numbers of the images of this rank's batch."""
        step = self.batch_size * self.world
        together = self.order[number * step : (number + 1) * step]
        size = -(-len(together) // self.world)
        return together[self.rank * size : (self.rank + 1) * size]

    def __getitem__(self, number: int) -> "_Raw | PipelineError":
        # an exception would cross the process border as a traceback in a string
        try:
            return self.read(number)
        except PipelineError as error:
            return error

    def read(self, number: int) -> _Raw:
        indices = self.block(number)
        seed = derive_seed(self.seed, self.epoch, self.rank, number)
        images = self._transform(indices, seed) if self.augment in PER_IMAGE else self.dataset.images.take(indices)
        return _Raw(augment_batch(self.augment, images, self.fill, seed), self.dataset.targets[indices], indices)

    def _transform(self, indices: Tensor, seed: int) -> Tensor:
        source = self.dataset.images
        pixels = torch.empty(len(indices), source.channels, source.resolution, source.resolution, dtype=torch.uint8)
        for place, index in enumerate(indices.tolist()):
            image = source.original(index)
            pixels[place] = augment_image(
                self.augment, image, source.resolution, source.channels == 3, derive_seed(seed, place)
            )
        return pixels


def derive_seed(*parts: int) -> int:
    """A 63-bit seed from numbers; different numbers give unrelated seeds."""
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0]) >> 1


def _read(plan: _Plan, numbers: range, workers: int, pin: bool) -> Iterator[_Raw]:
    if workers == 0:
        yield from map(plan.read, numbers)
        return
    plan.dataset.images.prepare()
    loader = DataLoader(
        plan,
        batch_size=None,
        sampler=numbers,
        num_workers=min(workers, available_cores(), max(1, len(numbers))),
        pin_memory=pin,
        # its own generator, or the loader would draw from the global one
        generator=torch.Generator().manual_seed(0),
    )
    try:
        for item in loader:
            if isinstance(item, PipelineError):
                raise item
            yield _Raw(*item)
    except RuntimeError as error:
        if "worker" not in str(error):
            raise
        raise UserError(
            f"a process that loads data died ({str(error).splitlines()[0]}); try [compute] workers = 0"
        ) from None
