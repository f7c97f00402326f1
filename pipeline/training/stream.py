"""An endless stream of batches that can be entered at any position: what a bilevel problem is fed with."""

from collections.abc import Iterator

import torch
from torch import Tensor

from pipeline.config import Augment
from pipeline.data import Batch, ImageSet, batches, count_batches
from pipeline.data.loader import shuffled
from pipeline.errors import UserError
from pipeline.resumable.ranks import share_of, world


class Stream:
    """Batch number n is the same whatever came before it, so work can go on where it was killed."""

    def __init__(
        self, images: ImageSet, batch_size: int, *, seed: int, augment: Augment, workers: int, device: torch.device
    ) -> None:
        self.images, self.seed, self.augment = images, seed, augment
        self.workers, self.device = workers, device
        self.share, self.world = share_of(batch_size), world()
        self.per_epoch = count_batches(images, self.share, world=self.world.size, drop_last=True)
        if not self.per_epoch:
            raise UserError(
                f"[search] batch_size = {batch_size}, but a part of the data has only {len(images)} images; "
                "lower batch_size or change [data] validation_share"
            )
        self._position = -1
        self._order: tuple[int, Tensor] | None = None
        self._batches: Iterator[Batch] = iter(())

    def batch(self, position: int) -> Batch:
        """Batch `position`; cheap when the one before it was asked for last."""
        epoch, index = divmod(position, self.per_epoch)
        if position != self._position + 1 or index == 0:
            self._batches = self._open(epoch, index)
        self._position = position
        return next(self._batches)

    def indices(self, position: int) -> Tensor:
        """The pool numbers of batch `position` on all ranks, one rank's after the other's."""
        epoch, index = divmod(position, self.per_epoch)
        if self._order is None or self._order[0] != epoch:
            self._order = epoch, shuffled(self.images, self.seed, epoch)
        size = self.share * self.world.size
        return self._order[1][index * size : (index + 1) * size]

    def fixed_batch(self, index: int) -> Batch:
        """Batch `index` of the first epoch, without augmentation; the stream stays where it is.

        Not in the images' own order: folders come class by class, and a batch of one class has statistics of its own.
        """
        return next(self._open(0, index, augment="none"))

    def _open(self, epoch: int, start: int, augment: Augment | None = None) -> Iterator[Batch]:
        return batches(
            self.images,
            self.share,
            seed=self.seed,
            epoch=epoch,
            rank=self.world.rank,
            world=self.world.size,
            augment=augment or self.augment,
            workers=self.workers,
            device=self.device,
            drop_last=True,
            start_batch=start,
        )
