"""Judging cells on validation images: by short trainings, or with the supernet's weights."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

from pipeline.config import Augment
from pipeline.console import progress_bar
from pipeline.errors import UserError
from pipeline.selection.outcome import Judgement
from pipeline.selection.race import count_trainings, run_race
from pipeline.selection.targets import Pick
from pipeline.space.genotype import Genotype
from pipeline.space.network import Network
from pipeline.space.skeleton import Skeleton
from pipeline.space.supernet import Supernet, inherit_weights
from pipeline.training.data import Batch, ImageData, batches

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
        return (Batch((batch.images - mean) / std, batch.labels) for batch in source)


class Trial:
    """A short training of one network: a runner of the race."""

    def __init__(self, skeleton: Skeleton, genotype: Genotype, material: Material, lr: float) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(material.seed)
            self._network = Network(skeleton, genotype).to(material.device)
        self._material, self._batches = material, material.training()
        self._optimizer = torch.optim.SGD(
            self._network.parameters(), lr, _MOMENTUM, weight_decay=_WEIGHT_DECAY, nesterov=True
        )

    def train(self, steps: int) -> None:
        self._network.train()
        for batch in islice(self._batches, steps):
            self._optimizer.zero_grad()
            loss = functional.cross_entropy(self._network(batch.images), batch.labels)
            torch.autograd.backward(loss)
            nn.utils.clip_grad_norm_(self._network.parameters(), _CLIP)
            self._optimizer.step()

    def loss(self) -> float:
        return validation_loss(self._network, self._material)


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

    def __init__(self, skeleton: Skeleton, weights: Path, material: Material) -> None:
        self._skeleton, self._material = skeleton, material
        self._supernet = Supernet(skeleton)
        try:
            state: dict[str, Tensor] = load_file(weights)
            self._supernet.load_state_dict(state)
        except (OSError, SafetensorError, RuntimeError):
            raise UserError(
                f"rescoring = 'supernet' needs the weights of this search in {weights}; run `pipeline search` again"
            ) from None

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


def judge_by_race(
    picks: Sequence[Pick], skeleton: Skeleton, material: Material, lr: float, first_steps: int
) -> list[Judgement]:
    """Short trainings of the cells in a small skeleton: cells are compared, and the target may be large."""
    trials = [Trial(skeleton, pick.genotype, material, lr) for pick in picks]
    with progress_bar() as bar:
        task = bar.add_task("race", total=count_trainings(len(trials)), note="")
        results = run_race(trials, first_steps, lambda note: bar.update(task, advance=1, note=note))
    return [Judgement(result.loss, result.place, result.steps) for result in results]


def judge_by_supernet(picks: Sequence[Pick], judge: SupernetJudge) -> list[Judgement]:
    """One pass over the validation images with inherited weights."""
    losses = [judge.loss(pick.genotype) for pick in picks]
    order = sorted(range(len(losses)), key=lambda i: losses[i])
    return [Judgement(loss, order.index(i), 0) for i, loss in enumerate(losses)]
