"""Training, architecture-validation and test parts: deterministic, disjoint, stratified by class."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pipeline.data.pool import Given
from pipeline.errors import UserError

# The test images do not depend on the seed: a run with another seed must not train on what this one is tested on.
_TEST_SEED = 0
_NAMED = 5  # classes that a refusal lists


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
    for part, share in (("test", test_share), ("validation", validation_share)):
        if not getattr(given, part) and share == 0:
            raise UserError(f"[data] {part}_share = 0 leaves no {part} images; set it above 0")
    if not given.test:
        train, test = cut(train, targets, test_share, _TEST_SEED)
    if not given.validation:
        train, validation = cut(train, targets, validation_share, seed)
    return Split(train, validation, test)


def require_every_class(parts: Split, targets: Tensor, given: Given, labels: tuple[str, ...], where: str) -> None:
    """Refuse classes that a part which was cut out here lacks: nobody would learn how well they are recognized.

    Parts that the data bring along are the user's own choice.
    """
    cuts = [part for part in ("validation", "test") if not getattr(given, part)]
    for part in cuts:
        present = torch.bincount(targets[getattr(parts, part)], minlength=len(labels))
        missing = (present == 0).nonzero().flatten().tolist()
        if missing:
            images = torch.bincount(targets[: given.train], minlength=len(labels))
            named = ", ".join(f"{labels[one]!r} ({int(images[one])})" for one in missing[:_NAMED])
            more = f" and {len(missing) - _NAMED} more" * (len(missing) > _NAMED)
            needed = len(cuts) + 1
            few = any(images[one] < needed for one in missing)
            advice = f"give each {needed} or more images, or remove it" if few else "lower [data] test_share"
            raise UserError(f"no {part} image is left of these classes of {where}: {named}{more}; {advice}")


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
