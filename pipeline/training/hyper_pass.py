"""The steps between two epochs in which AutoDO learns about the training images: a pass over them, guide beside it.

Hyper batch n of an epoch depends on (seed, epoch, n) alone, so that a pass goes on where it was killed.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from pipeline.autodo.augmentation import Noise, augment, draw_noise
from pipeline.autodo.last_layer import Encoded, LastLayer
from pipeline.autodo.learner import Learner
from pipeline.autodo.parameters import Rows
from pipeline.config import Augment
from pipeline.data import Batch, ImageSet, batches
from pipeline.data.loader import derive_seed
from pipeline.errors import UserError
from pipeline.resumable.ranks import average_, world
from pipeline.training.job import Job
from pipeline.training.step import Model, Stepper, memory_watched
from pipeline.training.stream import Stream

_AT_ONCE = 256  # images, where no gradient is asked for
_SHRINK = "lower [autodo] batch_size"
_TRAIN_SEED, _GUIDE_SEED, _NOISE_SEED = 1, 2, 3  # beside the training's own


def make_learner(job: Job) -> Learner | None:
    """λ of a job's training images, if it learns any."""
    if not job.autodo.is_on:
        return None
    targets = job.train.targets[job.train.indices]
    return Learner(job.autodo, job.train.indices, targets, job.classes, job.config.epochs, job.device)


class HyperPass:
    """One network's hyper steps; its weights are those that are trained, not the averaged ones."""

    def __init__(self, model: Model, job: Job, stepper: Stepper, learner: Learner) -> None:
        if model.classifier is None:
            raise UserError("[autodo] needs a network that ends in a linear layer, which this one does not")
        if job.guide is None:
            raise UserError(f"[autodo] learn = {job.autodo.learn!r} needs guide images")
        self.job, self.module, self.classifier = job, model.module, model.classifier
        self.learner, self.stepper = learner, stepper
        self.train = self._stream(job.train, job.augment, _TRAIN_SEED)
        self.guide = self._stream(job.guide, "none", _GUIDE_SEED)
        self.steps = self.train.per_epoch
        self._check_classifier()

    def _stream(self, images: ImageSet, augment: Augment, kind: int) -> Stream:
        size = world().size
        return Stream(
            images,
            min(self.job.autodo.batch_size, max(len(images) // size, 1) * size),
            seed=derive_seed(self.job.seed, kind),
            augment=augment,
            workers=self.job.workers,
            device=self.job.device,
        )

    def _check_classifier(self) -> None:
        """The logits must be what the last layer makes of its input: found out now, not after the plain epochs."""
        pixels = self.job.train[0][0].to(self.job.device)[None].float() / 255
        with self._evaluating(), torch.no_grad():
            logits = self.module(self.job.normalize(pixels))
            features = self._features(pixels)
            fits = features.dim() == 2 and torch.allclose(self.classifier(features), logits, rtol=1e-3, atol=1e-3)
        if not fits:
            raise UserError("[autodo] needs a network that ends in a linear layer; this one changes what it puts out")

    def step(self, epoch: int, number: int) -> float:
        """Move the λ of hyper batch `number`; ‖∇θL − ∇θL_v‖² before it."""
        position = (epoch - self.job.autodo.start_epoch) * self.steps + number
        indices = self.train.indices(position).to(self.job.device)
        with self._evaluating(), memory_watched(self.train.share, _SHRINK):
            problem = self._pose(position, self.learner.optimizer.rows(self.learner.numbers(indices)))
            self.learner.move(problem, indices, self.learner.course.rate(epoch) * self.stepper.rate_scale)
            return problem.gap()

    def _pose(self, position: int, rows: Rows) -> LastLayer:
        """The problem of a step, given the rows of its whole batch."""
        batch, first = self.train.batch(position), world().rank * self.train.share
        own = slice(first, first + self.train.share)
        encode = self._encoder(batch.images, position, own) if "augmentation" in rows else None
        with torch.no_grad():
            guide = self._encode(self.guide.batch(position))
            features = self._features(batch.images) if encode is None else encode(rows["augmentation"][own])
        weight, bias = self.classifier.weight.detach(), self.classifier.bias
        return LastLayer(
            weight.float(),
            None if bias is None else bias.detach().float(),
            self.job.config.weight_decay,
            Encoded(features, batch.labels),
            guide,
            rows,
            own,
            encode,
        )

    def _encoder(self, images: Tensor, position: int, own: slice) -> Callable[[Tensor], Tensor]:
        """Features of this rank's images as a function of their λA; all ranks draw the noise of the whole batch."""
        generator = torch.Generator().manual_seed(derive_seed(self.job.seed, _NOISE_SEED, position))
        whole = draw_noise(self.train.share * world().size, images.device, generator)
        noise = Noise(*(part[own] for part in whole))
        return lambda raw: self._features(augment(images, raw, noise))

    def observe(self) -> None:
        """Note the loss of every training image as it is, without augmentation; each rank sees its share of them."""
        losses, answers = (torch.zeros(len(self.job.train), device=self.job.device) for _ in range(2))
        right = torch.zeros(1, device=self.job.device)
        with self._evaluating(), torch.no_grad():
            for batch in self._in_order(self.job.train):
                logits, rows = self._logits(batch.images), self.learner.numbers(batch.indices)
                losses[rows] = nn.functional.cross_entropy(logits, batch.labels, reduction="none")
                answers[rows] = logits.argmax(1).float()
            for batch in self._in_order(self.guide.images):
                right += (self._logits(batch.images).argmax(1) == batch.labels).sum()
        average_([losses, answers, right])
        size = world().size  # each number above is a mean over ranks of which one alone has seen it
        guide_top1 = float(right) * size / len(self.guide.images)
        self.learner.early.observe(losses * size, (answers * size).round().long(), guide_top1)

    def _logits(self, images: Tensor) -> Tensor:
        with self.stepper.precision.autocast():
            logits: Tensor = self.module(self.job.normalize(images))
        return logits.float()

    def _in_order(self, images: ImageSet) -> Iterator[Batch]:
        return batches(
            images,
            _AT_ONCE,
            seed=0,
            epoch=0,
            rank=world().rank,
            world=world().size,
            shuffle=False,
            workers=self.job.workers,
            device=self.job.device,
        )

    def _encode(self, batch: Batch) -> Encoded:
        return Encoded(self._features(batch.images), batch.labels)

    def _features(self, images: Tensor) -> Tensor:
        """What the last layer is fed."""
        seen: list[Tensor] = []
        hook = self.classifier.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].float()))
        parts = [images] if torch.is_grad_enabled() else torch.split(images, _AT_ONCE)
        try:
            with self.stepper.precision.autocast():
                for part in parts:
                    self.module(self.job.normalize(part))
        finally:
            hook.remove()
        return torch.cat(seen)

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        self.module.eval()
        try:
            yield
        finally:
            self.module.train()
