"""What a training would cost: seconds of an epoch with and without its teacher, from a few small steps thrown away.

A step of b images takes s + c·b seconds, of the student as of the teacher: s and c are those of the two largest batches
that can be timed in seconds.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

import torch

from pipeline.data import Batch, batches, count_batches
from pipeline.training.distillation import may_cache
from pipeline.training.job import Job
from pipeline.training.precision import Precision
from pipeline.training.step import Model, Stepper

_FIRST_BATCH = 4
_PATIENCE_S = 10.0
_REPEATS = 2  # the first of each also pays for what later ones find prepared


class Timed(NamedTuple):
    """Seconds of a step of so many images, and of the teacher's answers to them."""

    images: int
    step_s: float
    teacher_s: float


@dataclass(frozen=True)
class TrainingPreview:
    """The size of a training, and the batches that were timed, in rising order."""

    weights: int
    training_only: int
    images: int
    steps: int
    batch_size: int
    epochs: int
    keeps_answers: bool
    has_teacher: bool
    timed: tuple[Timed, ...]

    def _side_head(self) -> str:
        return (
            f", {self.training_only:,} of them of an auxiliary head that is not deployed" if self.training_only else ""
        )

    @property
    def plain_epoch_s(self) -> float:
        return self.steps * self._at([one.step_s for one in self.timed])

    @property
    def answers_s(self) -> float:
        """What the teacher adds to an epoch in which it is asked."""
        return self.steps * self._at([one.teacher_s for one in self.timed])

    @property
    def plain_s(self) -> float:
        return self.epochs * self.plain_epoch_s

    @property
    def whole_s(self) -> float:
        """All epochs with the teacher; answers that are kept are asked for once."""
        return self.plain_s + (1 if self.keeps_answers else self.epochs) * self.answers_s

    def _at(self, seconds: Sequence[float]) -> float:
        """s + c·b at the batch size asked."""
        last = self.timed[-1].images
        if len(self.timed) == 1:
            return seconds[-1] * self.batch_size / last
        slope = max((seconds[-1] - seconds[-2]) / (last - self.timed[-2].images), 0.0)
        return seconds[-1] + slope * (self.batch_size - last)

    def lines(self) -> list[str]:
        """For a person."""
        found = [
            f"network: {self.weights:,} weights{self._side_head()}; {self.images:,} training images, "
            f"{self.steps:,} steps of {self.batch_size} an epoch",
            f"without a teacher: about {_span(self.plain_epoch_s)} an epoch, {_span(self.plain_s)} in all",
        ]
        if not self.has_teacher:
            return found
        if self.keeps_answers:
            how = f"its answers are computed once, in about {_span(self.answers_s)}, for no epoch changes the images"
        else:
            each = _span(self.plain_epoch_s + self.answers_s)
            how = f"about {each} an epoch, for it is asked about every image as it is augmented"
        return [*found, f"with the teacher: {how}; {_span(self.whole_s)} in all"]


def _span(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 10 else str(timedelta(seconds=round(seconds)))


def preview_training(model: Model, job: Job, clock: Callable[[], float] = time.perf_counter) -> TrainingPreview:
    """Time steps of ever larger batches, as far as patience goes; the model is worth nothing afterwards."""
    size = min(job.config.batch_size, len(job.train))
    started, timed = clock(), list[Timed]()
    images = min(_FIRST_BATCH, size)
    while True:
        before = clock()
        timed.append(_time(model, job, images, clock))
        next_s = 2 * (clock() - before)
        if images == size or clock() - started + next_s > _PATIENCE_S:
            break
        images = min(2 * images, size)
    return TrainingPreview(
        weights=sum(weight.numel() for weight in model.module.parameters()),
        training_only=sum(w.numel() for name, w in model.module.named_parameters() if name.startswith("auxiliary.")),
        images=len(job.train),
        steps=count_batches(job.train, size, drop_last=True),
        batch_size=size,
        epochs=job.config.epochs,
        keeps_answers=may_cache(job.config, job.augment, len(job.train), job.classes),
        has_teacher=job.teacher is not None,
        timed=tuple(timed),
    )


def _time(model: Model, job: Job, images: int, clock: Callable[[], float]) -> Timed:
    settings = job.config.model_copy(update={"accumulate": 1, "compile": False})
    precision = Precision("float32" if settings.precision == "auto" else settings.precision, job.device)
    stepper = Stepper(model, settings, job.normalize, precision, job.classes, 1, job.seed)
    served = batches(job.train, images, seed=0, epoch=0, augment=job.augment, device=job.device, drop_last=True)
    batch = next(served)
    step_s = _fastest(lambda: stepper.step(batch, 0), clock)
    teacher_s = 0.0 if job.teacher is None else _fastest(lambda: _ask(job, batch), clock)
    return Timed(images, step_s, teacher_s)


def _ask(job: Job, batch: Batch) -> torch.Tensor:
    assert job.teacher is not None
    return job.teacher(batch.images)


def _fastest(work: Callable[[], object], clock: Callable[[], float]) -> float:
    taken = []
    for _ in range(_REPEATS):
        start = clock()
        work()
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.synchronize()
        taken.append(clock() - start)
    return min(taken)
