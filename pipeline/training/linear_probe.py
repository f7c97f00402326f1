"""What the least of classifiers makes of the data: a linear probe on the pixels, by ridge regression.

    W = (XᵀX + λI)⁻¹ XᵀY,   X: standardized pixels and a 1, Y: ±1 per class

A teacher that is worse than this has nothing to teach.
"""

import torch
from torch import Tensor
from torch.nn import functional

from pipeline.data import ImageSet
from pipeline.data.normalization import to_floats

_MOST_IMAGES = 5000
_LARGEST_PX = 16
_RIDGE = 0.1  # of the images: pixels of natural images are nearly collinear


def probe_accuracy(train: ImageSet, judged: ImageSet) -> float:
    """The share of `judged` that a linear probe trained on `train` is right about."""
    x, y = _features(train)
    mean, std = x.mean(0), x.std(0).clamp_min(1e-6)
    classes = int(max(train.targets.max(), judged.targets.max())) + 1
    signs = 2 * functional.one_hot(y, classes).double() - 1
    design = _with_one((x - mean) / std)
    gram = design.T @ design + _RIDGE * len(design) * torch.eye(design.shape[1], dtype=torch.float64)
    weights = torch.linalg.solve(gram, design.T @ signs)
    other, truth = _features(judged)
    return float(((_with_one((other - mean) / std) @ weights).argmax(1) == truth).double().mean())


def evenly_spaced(images: ImageSet, most: int) -> Tensor:
    """Numbers of at most so many images, evenly spaced."""
    return images.indices[:: -(-len(images) // most)]


def _features(images: ImageSet) -> tuple[Tensor, Tensor]:
    """Pixels, large images shrunk, and labels."""
    indices = evenly_spaced(images, _MOST_IMAGES)
    pixels = to_floats(images.images.take(indices))
    if pixels.shape[-1] > _LARGEST_PX:
        pixels = functional.interpolate(pixels, size=_LARGEST_PX, mode="area")
    return pixels.flatten(1).double(), images.targets[indices]


def _with_one(x: Tensor) -> Tensor:
    return torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], dim=1)
