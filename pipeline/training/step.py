"""One training step of any network: shards, parts, mixed precision, averaging, clipping, the update, averaged weights.

Nothing here depends on what ran before: part k of step n on rank r draws its randomness from (seed, n, r·parts + k),
so two ranks compute what one process with two parts would, and a resumed run what an uninterrupted one would.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from pipeline.autodo.learner import Learner
from pipeline.config import RetrainConfig
from pipeline.data.loader import Batch, derive_seed
from pipeline.data.normalization import Normalization
from pipeline.errors import UserError
from pipeline.resumable.ranks import average_, world
from pipeline.space.network import Network
from pipeline.training.distillation import Distillation
from pipeline.training.precision import Precision
from pipeline.training.recipe import make_average, make_loss, make_mixing, make_optimizer, make_schedule


class Outputs(NamedTuple):
    """Logits, and those of an auxiliary head where there is one."""

    logits: Tensor
    auxiliary: Tensor | None


@dataclass(frozen=True)
class Model:
    """A network, and how training drives it; `classifier` is its last layer, if that is a linear one."""

    module: nn.Module
    forward: Callable[[Tensor], Outputs]
    set_drop_path: Callable[[float], None]
    classifier: nn.Linear | None = None


def model_of(network: Network) -> Model:
    """A stacked network with its auxiliary head and its droppable paths."""
    last = _last_linear(network.head)
    return Model(network, lambda x: Outputs(*network.forward_with_auxiliary(x)), network.set_drop_path, last)


def plain_model(module: nn.Module) -> Model:
    """Any classifier, without either."""
    return Model(module, lambda x: Outputs(module(x), None), lambda rate: None, _last_linear(module))


def _last_linear(module: nn.Module) -> nn.Linear | None:
    return next((one for one in reversed(list(module.modules())) if isinstance(one, nn.Linear)), None)


class Stepped(NamedTuple):
    """What a step did, the same on all ranks; a loss that is not finite means that nothing was updated.

    `head_loss` is that of the deployed head on labels alone, which can be compared with a loss on other images.
    """

    loss: float
    top1: float
    head_loss: float
    stop: bool


class Stepper:
    """The network with all that changes while it is trained."""

    def __init__(
        self,
        model: Model,
        config: RetrainConfig,
        normalize: Normalization,
        precision: Precision,
        classes: int,
        steps_per_epoch: int,
        seed: int,
        learner: Learner | None = None,
        distillation: Distillation | None = None,
    ) -> None:
        self.module, self.config, self.normalize, self.precision, self.seed = (
            model.module, config, normalize, precision, seed,
        )  # fmt: skip
        self.forward = _compiled(model.forward, config)
        self.optimizer = make_optimizer(config, model.module)
        self.schedule = make_schedule(config, self.optimizer, steps_per_epoch)
        self.loss, self.mix = make_loss(config), make_mixing(config, classes)
        self.average, self.learner = make_average(config, model.module), learner
        self.distillation = distillation
        self.scaler = torch.amp.GradScaler(precision.device.type, enabled=precision.name == "float16")
        self.rate_scale = 1.0

    @property
    def deployed(self) -> nn.Module:
        """The network whose weights would be deployed now."""
        return self.module if self.average is None else self.average.module

    def step(self, batch: Batch, number: int, stop: bool = False) -> Stepped:
        """Step `number` (from 0) on this rank's share of the batch."""
        self.module.train()
        self.schedule(number)
        for group in self.optimizer.param_groups:
            group["lr"] *= self.rate_scale
        figures = self._gradients(batch, number)
        done = self._agree(figures, stop)
        if np.isfinite(done.loss):
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.module.parameters(), self.config.clip)
            self.scaler.step(self.optimizer)
            self.scaler.update()
            if self.average is not None:
                self.average.update(self.module, number + 1)
        self.optimizer.zero_grad(set_to_none=True)
        return done

    def _gradients(self, batch: Batch, number: int) -> Tensor:
        """Leave the gradient of the mean loss in the parameters; loss, share of right answers, head's loss."""
        images = len(batch.images)
        figures = torch.zeros(3, device=batch.images.device)
        parts = min(self.config.accumulate, images)
        for part, some in enumerate(map(Batch, *(tensor.tensor_split(parts) for tensor in batch))):
            seed_all(self.seed, number, world().rank * parts + part)
            with memory_watched(images // self.config.accumulate, _shrink(self.config)):
                share = len(some.images) / images
                figures += share * self._backward(some, share)
        return figures

    def _backward(self, batch: Batch, share: float) -> Tensor:
        mixed = self.mix(batch.images, batch.labels)
        images = mixed.images if self.learner is None else self.learner.augment(mixed.images, batch.indices)
        with self.precision.autocast():
            answers = None if self.distillation is None else self.distillation.answers(images, batch.indices)
            outputs = self.forward(self.normalize(images))
            head = self._loss(outputs.logits, mixed.labels, batch.indices)
            total = self._distilled(head, outputs.logits, answers)
            if outputs.auxiliary is not None:
                side = self._loss(outputs.auxiliary, mixed.labels, batch.indices)
                total = total + self.config.auxiliary * self._distilled(side, outputs.auxiliary, answers)
        self.scaler.scale(total * share).backward()  # type: ignore[no-untyped-call]
        right = (outputs.logits.detach().argmax(1) == batch.labels).float().mean()
        return torch.stack([total.detach().float(), right, head.detach().float()])

    def _loss(self, logits: Tensor, labels: Tensor, indices: Tensor) -> Tensor:
        if self.learner is not None:
            return self.learner.loss(logits, labels, indices)
        loss: Tensor = self.loss(logits, labels)
        return loss

    def _distilled(self, label_loss: Tensor, logits: Tensor, answers: Tensor | None) -> Tensor:
        if self.distillation is None or answers is None:
            return label_loss
        return self.distillation.loss(label_loss, logits, answers)

    def _agree(self, figures: Tensor, stop: bool) -> Stepped:
        """Average over ranks, in one message, all that must be the same: gradients, BatchNorm statistics, figures."""
        agreed = torch.cat([figures, figures.new_tensor([float(stop)])])
        gradients = [p.grad for p in self.module.parameters() if p.grad is not None]
        statistics = [buffer for buffer in self.module.buffers() if buffer.is_floating_point()]
        average_([*gradients, *statistics, agreed])
        loss, top1, head_loss, stopped = agreed.tolist()
        return Stepped(loss, top1, head_loss, stopped > 0)

    def state(self) -> dict[str, Any]:
        """All that the next step depends on."""
        return {
            "network": dict(self.module.state_dict()),
            "optimizer": self.optimizer.state_dict(),
            "average": None if self.average is None else dict(self.average.module.state_dict()),
            "scaler": self.scaler.state_dict(),
            "rate_scale": self.rate_scale,
            "learner": None if self.learner is None else self.learner.state(),
        }

    def load(self, state: dict[str, Any]) -> None:
        self.module.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.average is not None:
            self.average.module.load_state_dict(state["average"])
        if state["scaler"]:
            self.scaler.load_state_dict(state["scaler"])
        self.rate_scale = state["rate_scale"]
        if self.learner is not None:
            self.learner.load(state["learner"])


def seed_all(*parts: int) -> None:
    """Put every global generator where the numbers say; drop path, dropout and mixing draw from these."""
    seed = derive_seed(*parts)
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed(seed)


@contextmanager
def memory_watched(images: int, advice: str) -> Iterator[None]:
    """Out of memory with so many images at once becomes a sentence that ends in the setting to try."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
        if not isinstance(error, (torch.OutOfMemoryError, MemoryError)) and "allocate memory" not in str(error):
            raise
        raise UserError(f"out of memory with {images} images at once; {advice}") from None


def _shrink(config: RetrainConfig) -> str:
    advice = f"set [retrain] accumulate = {2 * config.accumulate} to keep the recipe"
    return f"{advice}, or batch_size = {config.batch_size // 2}" if config.batch_size > 1 else advice


def _compiled(forward: Callable[[Tensor], Outputs], config: RetrainConfig) -> Callable[[Tensor], Outputs]:
    if not config.compile:
        return forward
    if config.drop_path > 0:
        raise UserError("[retrain] compile = true needs drop_path = 0, for its rate changes every epoch")
    compiled: Callable[[Tensor], Outputs] = torch.compile(forward)
    return compiled
