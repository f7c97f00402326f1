"""Short trainings of single networks on the user's data: what every other judgement is checked against.

From random weights, networks that start early win, whatever they end with. So after a search that was long enough each
begins with the weights that it has in the supernet, thousands of steps on: on NAS-Bench-Macro that turns rankings
within a size from the wrong way round to the right one (search-decisions.md).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count, islice

import torch
from torch import nn
from torch.nn import functional

from pipeline.config import Augment
from pipeline.data import Batch, ImageData, batches
from pipeline.data.normalization import Normalization
from pipeline.space.genotype import Genotype
from pipeline.space.network import Network
from pipeline.space.shared_weights import take_from_supernet
from pipeline.space.skeleton import Skeleton
from pipeline.space.spaces import space_named
from pipeline.space.supernet import Supernet

_PEAK_LR, _INHERITED_LR, _MOMENTUM, _WEIGHT_DECAY, _CLIP = 0.1, 0.05, 0.9, 3e-4, 5.0
_VALIDATION_IMAGES = 4096
_CELLS, _CHANNELS, _PIXELS = 5, 8, 32  # fewer cells hardly differ, and more of anything buys fewer trainings


def trial_skeleton(searched: Skeleton) -> Skeleton:
    """The layout in which single networks are looked at and trained: small, as many short trainings say more than few.

    A space of layers keeps its layers; a stem that divides the resolution already makes the rest small.
    """
    has_layers = searched.cells == len(space_named(searched.space).kinds)
    return replace(
        searched,
        cells=searched.cells if has_layers else _CELLS,
        channels=min(searched.channels, _CHANNELS),
        resolution=searched.resolution if searched.imagenet_stem else min(searched.resolution, _PIXELS),
    )


@dataclass(frozen=True)
class Material:
    """The images at the size they are trained at; every network sees the same ones in the same order."""

    data: ImageData
    batch_size: int
    seed: int
    augment: Augment
    device: torch.device
    resolution: int = 0
    """Images are shrunk to so many pixels; 0 leaves them as they are."""

    def training(self) -> Iterator[Batch]:
        """Training batches without end."""
        size = min(self.batch_size, len(self.data.train))
        for epoch in count():
            source = batches(
                self.data.train,
                size,
                seed=self.seed,
                epoch=epoch,
                augment=self.augment,
                device=self.device,
                drop_last=True,
            )
            yield from map(self._prepare, source)

    def validation(self, images: int) -> Iterator[Batch]:
        """About so many validation images, each once, the same ones every time."""
        source = batches(self.data.validation, self.batch_size, seed=self.seed, epoch=0, device=self.device)
        return map(self._prepare, islice(source, math.ceil(images / self.batch_size)))

    def _prepare(self, batch: Batch) -> Batch:
        # with channels_last a training step takes two thirds of the time on a CPU
        normalize = Normalization(self.data.mean, self.data.std, self.device, True, self.resolution)
        return batch._replace(images=normalize(batch.images))


def train_shortly(
    skeleton: Skeleton, genotype: Genotype, material: Material, steps: int, supernet: Supernet | None = None
) -> float:
    """The validation loss after `steps` steps of SGD whose rate falls to 0 along a cosine; +∞ when it diverges.

    The rate falls all the way, because networks that look worse at a high rate overtake as it falls. With a supernet,
    weights begin as they are there.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(material.seed)
        network = Network(skeleton, genotype)
    if supernet is not None:
        take_from_supernet(network, supernet)
    network.to(material.device).to(memory_format=torch.channels_last)
    peak = _PEAK_LR if supernet is None else _INHERITED_LR
    optimizer = torch.optim.SGD(network.parameters(), peak, _MOMENTUM, weight_decay=_WEIGHT_DECAY, nesterov=True)
    network.train()
    for step, batch in enumerate(islice(material.training(), steps)):
        optimizer.param_groups[0]["lr"] = peak * (1 + math.cos(math.pi * step / steps)) / 2
        optimizer.zero_grad()
        loss = functional.cross_entropy(network(batch.images), batch.labels)
        if not torch.isfinite(loss):
            return math.inf
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(network.parameters(), _CLIP)
        optimizer.step()
    found = validation_loss(network, material)
    return found if math.isfinite(found) else math.inf


def validation_loss(network: nn.Module, material: Material, images: int = _VALIDATION_IMAGES) -> float:
    """The mean cross-entropy over about so many validation images."""
    network.eval()
    total, seen = torch.zeros(()), 0
    with torch.no_grad():
        for batch in material.validation(images):
            total += functional.cross_entropy(network(batch.images), batch.labels, reduction="sum").cpu()
            seen += len(batch.labels)
    return float(total) / seen
