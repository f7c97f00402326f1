"""Data sets with labels that are known to be wrong: what AutoDO is measured on."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from benchmarks.hyper_cleaning_problem import FASHION
from pipeline.config import DataConfig
from pipeline.data import load_data
from pipeline.data.normalization import Normalization
from pipeline.data.pool import ImageSet, Statistics, TensorImages, measure

CIFAR = Path(__file__).parents[2] / "shared" / "data" / "cifar10" / "cifar10_subset.npz"
CLASSES = 10


@dataclass(frozen=True)
class Sizes:
    """Images of each part, and what is done to them: share of wrong training labels, imbalance of training classes.

    Guide and test images are turned by up to `turned` degrees either way, training images are not.
    """

    train: int
    guide: int
    test: int
    flipped: float = 0.0
    imbalance: int = 1
    turned: float = 0.0


@dataclass(frozen=True)
class Distorted:
    """Disjoint parts of one pool; `flipped` says of every image of `train` whether its label is wrong."""

    train: ImageSet
    guide: ImageSet
    test: ImageSet
    flipped: Tensor
    truth: Tensor

    @property
    def normalize(self) -> Normalization:
        found = self.train.reference()
        return Normalization(found.mean, found.std, "cpu", channels_last=False)

    def chosen(self, *indices: Tensor) -> ImageSet:
        """Images of the pool by number."""
        return ImageSet(self.train.images, self.train.targets, torch.cat(indices).sort().values, self.train.reference)


def load_pool(name: str) -> tuple[Tensor, Tensor]:
    """All images of a data set with right labels."""
    config = {
        "digits": DataConfig(resolution=8),
        "fashion": DataConfig(format="idx", path=str(FASHION), resolution=28),
        "cifar": DataConfig(format="npz", path=str(CIFAR), resolution=32, colour=True),
    }[name]
    pool = load_data(config, Path(), 0).pool
    assert isinstance(pool.images, TensorImages)
    return pool.images.pixels, pool.targets


def distort(pixels: Tensor, targets: Tensor, sizes: Sizes, seed: int) -> Distorted:
    """Cut parts that are balanced by class, make the second half of the training classes rare, then flip labels.

    Guide and test keep their labels and balance; a flipped label is always another one.
    """
    random = np.random.default_rng(seed)
    order = torch.from_numpy(random.permutation(len(targets)))
    by_class = [order[targets[order] == label] for label in range(CLASSES)]
    guide, test, train = [], [], []
    for label, members in enumerate(by_class):
        cuts = [part // CLASSES + (label < part % CLASSES) for part in (sizes.guide, sizes.test)]
        most = sizes.train // CLASSES
        if label >= CLASSES // 2:
            most = max(2, round(most / sizes.imbalance))
        guide.append(members[: cuts[0]])
        test.append(members[cuts[0] : sum(cuts)])
        train.append(members[sum(cuts) : sum(cuts) + most])
    numbers = torch.cat(train).sort().values
    flipped = torch.from_numpy(random.permutation(len(numbers))) < round(sizes.flipped * len(numbers))
    shifts = torch.from_numpy(random.integers(1, CLASSES, len(numbers)))
    noisy = targets.clone()
    noisy[numbers] = torch.where(flipped, (targets[numbers] + shifts) % CLASSES, targets[numbers])
    if sizes.turned:
        pixels = pixels.clone()
        for some in (torch.cat(guide), torch.cat(test)):
            pixels[some] = turn(pixels[some], sizes.turned, random)
    images, statistics = TensorImages(pixels), measure(TensorImages(pixels), numbers)

    def part(indices: Tensor) -> ImageSet:
        return ImageSet(images, noisy, indices.sort().values, lambda: Statistics(*statistics))

    return Distorted(part(numbers), part(torch.cat(guide)), part(torch.cat(test)), flipped, targets[numbers])


def turn(pixels: Tensor, degrees: float, random: np.random.Generator) -> Tensor:
    """Every image turned by an angle of its own, by Pillow and not by the warp that is measured."""
    angles = random.uniform(-degrees, degrees, len(pixels))
    turned = [
        Image.fromarray(image[0].numpy()).rotate(angle, Image.Resampling.BILINEAR)
        for image, angle in zip(pixels, angles, strict=True)
    ]
    return torch.from_numpy(np.stack([np.asarray(image) for image in turned]))[:, None]
