"""What a training is given, where it stands, and what comes out of it."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from pipeline.autodo.learner import Learned
from pipeline.autodo_config import AutodoConfig
from pipeline.config import Augment, RetrainConfig
from pipeline.data import ImageSet, count_batches
from pipeline.data.normalization import Normalization
from pipeline.resumable.checkpoint import State
from pipeline.training.teacher import Teacher

_FEW_STEPS = 200  # after 56, averaged weights had 40 % where the last ones had 53


@dataclass(frozen=True)
class Job:
    """What a network is trained on, how, and where the traces go; `guide` is what `autodo` learns by.

    `section` is that of pipeline.toml which says how. `first_epoch` is called once in a process, on the writer, after
    its first whole epoch.
    """

    config: RetrainConfig
    train: ImageSet
    holdout: ImageSet | None
    classes: int
    normalize: Normalization
    augment: Augment
    device: torch.device
    seed: int
    workers: int
    checkpoints: Path
    history: Path
    tensorboard: Path | None
    config_hash: str
    clock: Callable[[], float] = time.monotonic
    autodo: AutodoConfig = field(default_factory=AutodoConfig)
    guide: ImageSet | None = None
    teacher: Teacher | None = None
    section: str = "retrain"
    first_epoch: Callable[["FirstEpoch"], None] | None = None

    def describe_shortness(self) -> str:
        """The doubt about a training of so few steps; nothing if they are enough."""
        batch = min(self.config.batch_size, len(self.train))
        steps = self.config.epochs * count_batches(self.train, batch, drop_last=True)
        if steps >= _FEW_STEPS:
            return ""
        lag = f"; averaged weights lag behind in so few (ema = {self.config.ema:g})" if self.config.ema else ""
        return f"a short training: {steps:,} steps in all, too few to judge a network by{lag}; raise [retrain] epochs"


@dataclass(frozen=True)
class FirstEpoch:
    """The first epoch that a process has seen whole: its number from 1, its seconds, its training accuracy."""

    epoch: int
    epochs: int
    seconds: float
    train_top1: float


@dataclass(frozen=True)
class Position:
    """How far training has come, and the sums of the epoch under way; its hyper steps come before its batches."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    hyper_batch: int = 0
    roll_backs: int = 0
    loss_sum: float = 0.0
    top1_sum: float = 0.0
    gap_sum: float = 0.0
    best_top1: float = -1.0


@dataclass(frozen=True)
class Outcome:
    """Weights after training. `deployed` are the best epoch's, the averaged or the last ones, as `kind` says."""

    deployed: State
    last: State
    kind: str
    precision: str
    history: list[dict[str, Any]] = field(repr=False)
    learned: Learned | None = field(default=None, repr=False)
