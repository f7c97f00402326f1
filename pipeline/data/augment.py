"""Training augmentations by name.

Shifts, flips and cutout are drawn for every image but applied to the whole batch at once: torchvision's transforms draw
once per batch, and calling them image by image takes longer than training the demo's network. What works image by image
on the undecoded original (random resized crops, colour, RandAugment) comes from timm.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Generator, Tensor
from torch.nn import functional

from pipeline.config import Augment
from pipeline.data.pixels import set_channels

# DARTS pads 32-pixel images by 4 and cuts out squares of 16; other sizes keep the proportion
_MARGIN = 1 / 8
_HOLE = 1 / 2
# DARTS' colour jitter for ImageNet: brightness, contrast, saturation, hue
_JITTER = (0.4, 0.4, 0.4, 0.2)
# timm's usual policy; its noise is capped at 9 because at 10 it posterizes to 0 bits, which Pillow refuses
_RAND_AUGMENT = "rand-m9-mmax9-mstd0.5-inc1"
_ERASING = 0.25

PER_IMAGE: frozenset[Augment] = frozenset({"imagenet", "randaugment"})
"""Those that crop out of the original image."""
PAINTING: frozenset[Augment] = frozenset({"crop-flip-cutout", "randaugment"})
"""Those that paint over pixels with the mean colour, which normalization turns into 0."""


def augment_batch(name: Augment, images: Tensor, fill: Tensor, seed: int) -> Tensor:
    """The part that is done on whole batches, uint8 [B, C, R, R]; `fill` is a colour, uint8 [C, 1, 1]."""
    if name in ("none", "imagenet") or not len(images):
        return images
    if name == "randaugment":
        return erase(images, fill, seed)
    generator = torch.Generator().manual_seed(seed)
    images = shift(images, generator)
    if name == "shift":
        return images
    images = flip(images, generator)
    return cutout(images, fill, generator) if name == "crop-flip-cutout" else images


def shift(images: Tensor, generator: Generator) -> Tensor:
    """Each image moved by up to an eighth either way, zeros moving in (a random crop after padding)."""
    count, _, size, _ = images.shape
    margin = max(1, round(size * _MARGIN))
    top, left = torch.randint(0, 2 * margin + 1, (2, count, 1), generator=generator)
    steps = torch.arange(size)
    padded = functional.pad(images, (margin, margin, margin, margin))
    numbers = torch.arange(count)[:, None, None]
    return padded.permute(0, 2, 3, 1)[numbers, (top + steps)[:, :, None], (left + steps)[:, None, :]].permute(
        0, 3, 1, 2
    )


def flip(images: Tensor, generator: Generator) -> Tensor:
    """Each image mirrored with probability one half."""
    mirrored = torch.rand(len(images), 1, 1, 1, generator=generator) < 0.5
    return torch.where(mirrored, images.flip(-1), images)


def cutout(images: Tensor, fill: Tensor, generator: Generator) -> Tensor:
    """A square of half the side painted over in each image; its centre is anywhere, so that it may stick out."""
    size = images.shape[-1]
    hole = max(1, round(size * _HOLE))
    start = torch.randint(0, size, (2, len(images), 1), generator=generator) - hole // 2
    steps = torch.arange(size)
    rows, columns = ((steps >= start) & (steps < start + hole)).unbind()
    return torch.where((rows[:, :, None] & columns[:, None, :])[:, None], fill, images)


def erase(images: Tensor, fill: Tensor, seed: int) -> Tensor:
    """timm's random erasing; it paints with 0, so 0 is moved to the fill colour for the while."""
    with seeded(seed):
        return (_eraser()(images.to(torch.int16) - fill) + fill).to(torch.uint8)  # type: ignore[no-any-return]


def augment_image(name: Augment, image: Image.Image, resolution: int, colour: bool, seed: int) -> Tensor:
    """A random crop of an RGB original, transformed and resized; uint8 [C, resolution, resolution]."""
    with seeded(seed):
        pixels: Tensor = _transform(name, resolution)(image)
    if colour:
        return pixels
    return set_channels(pixels.to(torch.float32), colour).round().to(torch.uint8)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Run with all global generators at `seed`, and put them back: timm and torchvision draw from these."""
    python, numbers = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        random.seed(seed)
        np.random.seed(seed % 2**32)
        torch.default_generator.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numbers)


@cache
def _transform(name: Augment, resolution: int) -> Any:
    from timm.data.transforms_factory import create_transform

    return create_transform(
        input_size=resolution,
        is_training=True,
        interpolation="bilinear",
        color_jitter=_JITTER,
        auto_augment=_RAND_AUGMENT if name == "randaugment" else None,
        normalize=False,
    )


@cache
def _eraser() -> Any:
    from timm.data.random_erasing import RandomErasing

    return RandomErasing(_ERASING, mode="const", device="cpu")  # type: ignore[no-untyped-call]
