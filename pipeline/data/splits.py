"""Training, architecture-validation and test parts: deterministic, disjoint, stratified by class."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pipeline.data.pool import Given
from pipeline.errors import UserError

# The test images do not depend on the seed: a run with another seed must not train on what this one is tested on.
_TEST_SEED = 0


class Split(NamedTuple):
    """Sorted numbers of images, disjoint; together they are the whole pool."""

    train: Tensor
    validation: Tensor
    test: Tensor

    @property
    def train_all(self) -> Tensor:
        return torch.cat([self.train, self.validation]).sort().values


class Cut(NamedTuple):
    """Two disjoint parts of a list of numbers."""

    kept: Tensor
    taken: Tensor


def split(targets: Tensor, given: Given, validation_share: float, test_share: float, seed: int) -> Split:
    """The parts that the data brings along, and the missing ones cut out of the training images by class."""
    numbers = torch.arange(len(targets))
    train, validation, test = torch.split(numbers, list(given))
    if not given.test:
        train, test = cut(train, targets, test_share, _TEST_SEED)
        if not len(test):
            raise UserError(_too_few("test", "test_share", test_share, given.train))
    if not given.validation:
        train, validation = cut(train, targets, validation_share, seed)
        if not len(validation):
            raise UserError(_too_few("validation", "validation_share", validation_share, given.train))
    return Split(train, validation, test)


def cut(numbers: Tensor, targets: Tensor, share: float, seed: int) -> Cut:
    """Take `share` of every class, to within one image; at least one of a class with two, and never its last one.

    Rounding is carried from class to class, so that the total is right for many small classes too.
    """
    classes = targets[numbers]
    random = np.random.RandomState(np.random.MT19937(np.random.SeedSequence(seed)))  # a stream that numpy has frozen
    taken, due = [], 0.0
    for label in torch.unique(classes).tolist():
        members = numbers[classes == label]
        due += share * len(members)
        count = min(max(round(due), 1 if share > 0 else 0), len(members) - 1)
        due = min(max(due - count, -0.5), 0.5)
        taken.append(members[torch.from_numpy(random.permutation(len(members)))[:count]])
    chosen = torch.cat(taken).sort().values
    return Cut(numbers[~torch.isin(numbers, chosen)], chosen)


def _too_few(part: str, setting: str, share: float, images: int) -> str:
    if share == 0:
        return f"[data] {setting} = 0 leaves no {part} images; set it above 0"
    return f"{images} images are too few for training, validation and test; give every class three or more"
