"""Judging cells on validation images: by short trainings, or with the supernet's weights."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice

import torch
from torch import nn
from torch.nn import functional

from pipeline.artifacts.alphas import SupernetWeights
from pipeline.config import Augment
from pipeline.console import progress_bar
from pipeline.data import Batch, ImageData, batches
from pipeline.selection.candidate import Pick
from pipeline.selection.outcome import Judgement
from pipeline.selection.race import count_trainings, run_race
from pipeline.space.choices import Choices
from pipeline.space.genotype import Genotype
from pipeline.space.network import Network
from pipeline.space.skeleton import Skeleton
from pipeline.space.supernet import inherit_weights

_MOMENTUM, _WEIGHT_DECAY, _CLIP = 0.9, 3e-4, 5.0
_STATISTICS_BATCHES = 20


@dataclass(frozen=True)
class Material:
    """The images and how they are served; every candidate sees the same ones in the same order."""

    data: ImageData
    batch_size: int
    seed: int
    augment: Augment
    device: torch.device

    def training(self) -> Iterator[Batch]:
        """Training batches without end."""
        size = min(self.batch_size, len(self.data.train))
        for epoch in count():
            yield from self._normalized(
                batches(
                    self.data.train,
                    size,
                    seed=self.seed,
                    epoch=epoch,
                    augment=self.augment,
                    device=self.device,
                    drop_last=True,
                )
            )

    def validation(self) -> Iterator[Batch]:
        """Every validation image once."""
        return self._normalized(
            batches(self.data.validation, self.batch_size, seed=self.seed, epoch=0, shuffle=False, device=self.device)
        )

    def _normalized(self, source: Iterator[Batch]) -> Iterator[Batch]:
        mean, std = (torch.tensor(v, device=self.device).view(-1, 1, 1) for v in (self.data.mean, self.data.std))
        layout = torch.channels_last  # with it a training step takes two thirds of the time on a CPU
        return (Batch(((b.images - mean) / std).contiguous(memory_format=layout), b.labels) for b in source)


class Trial:
    """A short training of one network: a runner of the race. What it has reached is not trained again."""

    def __init__(self, skeleton: Skeleton, genotype: Genotype, material: Material, lr: float) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(material.seed)
            self._network = Network(skeleton, genotype).to(material.device).to(memory_format=torch.channels_last)
        self._material, self._batches = material, material.training()
        self._optimizer = torch.optim.SGD(
            self._network.parameters(), lr, _MOMENTUM, weight_decay=_WEIGHT_DECAY, nesterov=True
        )
        self._steps, self._losses = 0, dict[int, float]()

    def loss_after(self, steps: int) -> float:
        if steps not in self._losses:
            self._train(steps - self._steps)
            self._losses[steps] = validation_loss(self._network, self._material)
        return self._losses[steps]

    def _train(self, steps: int) -> None:
        self._network.train()
        for batch in islice(self._batches, steps):
            self._optimizer.zero_grad()
            loss = functional.cross_entropy(self._network(batch.images), batch.labels)
            torch.autograd.backward(loss)
            nn.utils.clip_grad_norm_(self._network.parameters(), _CLIP)
            self._optimizer.step()
        self._steps += steps


def validation_loss(network: nn.Module, material: Material) -> float:
    """The mean cross-entropy over the validation images."""
    network.eval()
    total, images = torch.zeros(()), 0
    with torch.no_grad():
        for batch in material.validation():
            total += functional.cross_entropy(network(batch.images), batch.labels, reduction="sum").cpu()
            images += len(batch.labels)
    return float(total) / images


class SupernetJudge:
    """Validation losses of cells that take their weights from the supernet; BatchNorm statistics are taken anew."""

    def __init__(self, skeleton: Skeleton, weights: SupernetWeights, material: Material) -> None:
        self._skeleton, self._material = skeleton, material
        self._supernet = weights.build(skeleton)

    def __call__(self, picks: Sequence[Pick]) -> list[Judgement]:
        losses = [self.loss(pick.genotype) for pick in picks]
        order = sorted(range(len(losses)), key=lambda i: losses[i])
        return [Judgement(loss, order.index(i), 0) for i, loss in enumerate(losses)]

    def loss(self, genotype: Genotype) -> float:
        network = Network(self._skeleton, genotype, affine=False, pool_bn=True)
        inherit_weights(network, self._supernet)
        network.to(self._material.device).train()
        for module in network.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.reset_running_stats()
                module.momentum = None  # the plain mean over all batches
        with torch.no_grad():
            for batch in islice(self._material.training(), _STATISTICS_BATCHES):
                network(batch.images)
        return validation_loss(network, self._material)


class RaceJudge:
    """Short trainings of cells in a small skeleton: cells are compared, and the target may be large.

    Trials are kept: a cell that another budget asks for again goes on where it was.
    """

    def __init__(self, skeleton: Skeleton, material: Material, lr: float, first_steps: int) -> None:
        self._skeleton, self._material, self._lr, self._first_steps = skeleton, material, lr, first_steps
        self._trials: dict[Choices, Trial] = {}

    def __call__(self, picks: Sequence[Pick]) -> list[Judgement]:
        for pick in picks:
            if pick.choices not in self._trials:
                self._trials[pick.choices] = Trial(self._skeleton, pick.genotype, self._material, self._lr)
        trials = [self._trials[pick.choices] for pick in picks]
        with progress_bar() as bar:
            task = bar.add_task("race", total=count_trainings(len(trials)), note="")
            results = run_race(trials, self._first_steps, lambda note: bar.update(task, advance=1, note=note))
        return [Judgement(result.loss, result.place, result.steps) for result in results]
