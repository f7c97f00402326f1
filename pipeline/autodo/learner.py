"""What a training holds of AutoDO: λ of every image, when and how fast they move, and what they do to the loss."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from pipeline.autodo.augmentation import augment, augmentation_of, draw_noise
from pipeline.autodo.early_losses import EarlyLosses
from pipeline.autodo.guard import Guard
from pipeline.autodo.last_layer import LastLayer
from pipeline.autodo.losses import weighted_loss
from pipeline.autodo.parameters import Rows, labels_of, start_rows, weights_of
from pipeline.autodo.rmsprop import RowRmsprop
from pipeline.autodo_config import AutodoConfig
from pipeline.bilevel import DivergenceError, Neumann

_WARMUP_SHARE = 30  # one epoch of warm-up in so many, as the authors' 5 of 150; images are told apart best at first
_WARMUP_START = 0.1  # of the peak rate
_LAST_RATE = 0.001  # likewise
_ATTEMPTS = 5  # at a gamma half as large each


class Learned(NamedTuple):
    """What is known of the training images in the end, in the order of `indices`, their numbers in the pool.

    Weights have a mean of 1; `proposed` are the network's answers after the plain epochs, which name the right class of
    a wrong label more often than `labels` do; `guide_top1` is the share of guide images that it answered right by then.
    `augmentation` are probabilities and magnitudes, [N, 14]. What was not learned is None.
    """

    indices: Tensor
    weights: Tensor
    labels: Tensor | None
    augmentation: Tensor | None
    proposed: Tensor
    early_losses: Tensor
    guide_top1: float
    frozen: bool


@dataclass(frozen=True)
class Course:
    """In which epochs λ moves, and how fast."""

    config: AutodoConfig
    epochs: int

    def is_plain(self, epoch: int) -> bool:
        return epoch < self.config.start_epoch

    def rate(self, epoch: int) -> float:
        """A line from a tenth over a thirtieth of the epochs; half a cosine down to a thousandth."""
        done, total = epoch - self.config.start_epoch, self.epochs - self.config.start_epoch
        warmup = total // _WARMUP_SHARE
        if done < warmup:
            return self.config.lr * (_WARMUP_START + (1 - _WARMUP_START) * done / warmup)
        wave = (1 + math.cos(math.pi * (done - warmup) / (total - warmup))) / 2
        return self.config.lr * (_LAST_RATE + (1 - _LAST_RATE) * wave)


class Learner:
    """λ of the training images, a row each, in the order of their sorted pool numbers."""

    def __init__(
        self, config: AutodoConfig, indices: Tensor, targets: Tensor, classes: int, epochs: int, device: torch.device
    ) -> None:
        self.config, self.course = config, Course(config, epochs)
        self.indices = indices.to(device)
        rows = start_rows(config.parts, targets.to(device), classes, config.label_start)
        self.optimizer, self.guard = RowRmsprop(rows), Guard()
        self.early = EarlyLosses(len(indices), device)
        self.steps, self.plain, self.mean_weight = 0, True, 1.0

    def numbers(self, indices: Tensor) -> Tensor:
        """The rows of images by their numbers in the pool."""
        return torch.searchsorted(self.indices, indices)

    def begin_epoch(self, epoch: int) -> None:
        """λ stands still from here to the end of the epoch; weights are divided by their mean, which is a rate."""
        self.plain = self.course.is_plain(epoch)
        self.mean_weight = float(weights_of(self.optimizer.values["weights"]).mean())

    def loss(self, logits: Tensor, labels: Tensor, indices: Tensor) -> Tensor:
        """The mean loss of a training batch: plain at first, with weights and soft labels after."""
        if self.plain:
            return functional.cross_entropy(logits, labels)
        rows = self.optimizer.rows(self.numbers(indices))
        return weighted_loss(logits, labels, rows, self.mean_weight)

    def augment(self, images: Tensor, indices: Tensor) -> Tensor:
        """A training batch warped by its λA, if that is learned and the epoch no plain one; global noise."""
        raw = self.optimizer.values.get("augmentation")
        if self.plain or raw is None:
            return images
        return augment(images, raw[self.numbers(indices)], draw_noise(len(images), images.device))

    def move(self, problem: LastLayer, indices: Tensor, rate: float) -> None:
        """One step on the λ of a batch, whose rows the problem holds; HypergradientError if there is no direction."""
        self.steps += 1
        self.optimizer.step(self.numbers(indices), self._gradients(problem), rate, self.steps)

    def _gradients(self, problem: LastLayer) -> Rows:
        for halvings in range(_ATTEMPTS):
            try:
                return problem.gradients(Neumann(self.config.gamma / 2**halvings, self.config.neumann_terms))
            except DivergenceError:
                if halvings == _ATTEMPTS - 1:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def judge(self, top1: float) -> bool:
        """Whether λ was frozen because the holdout accuracy fell."""
        return self.guard.judge(top1, self.optimizer.values)

    def result(self) -> Learned:
        weights = weights_of(self.optimizer.values["weights"])
        raw_labels, raw_augmentation = (self.optimizer.values.get(name) for name in ("labels", "augmentation"))
        return Learned(
            self.indices.cpu(),
            (weights / weights.mean()).cpu(),
            None if raw_labels is None else labels_of(raw_labels).cpu(),
            None if raw_augmentation is None else augmentation_of(raw_augmentation).cpu(),
            self.early.answers.cpu(),
            self.early.mean.cpu(),
            self.early.guide_top1,
            self.guard.frozen,
        )

    def state(self) -> dict[str, Any]:
        return {
            "lambda": self.optimizer.state(),
            "guard": self.guard.state(),
            "early": self.early.state(),
            "steps": self.steps,
        }

    def load(self, state: dict[str, Any]) -> None:
        self.optimizer.load(state["lambda"])
        self.guard.load(state["guard"])
        self.early.load(state["early"])
        self.steps = state["steps"]
