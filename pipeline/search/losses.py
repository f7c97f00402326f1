"""The two losses of the bilevel problem, as functions of a batch and the supernet's present state."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from pipeline.data import Batch
from pipeline.data.normalization import Normalization
from pipeline.search.expectation import expected_loss, log_chances
from pipeline.search.objective import Constraint
from pipeline.space.genotype import Genotype
from pipeline.space.paths import Paths, draw_paths
from pipeline.space.score import edge_weights
from pipeline.space.supernet import Supernet


class Judged(NamedTuple):
    """A loss, and those of the single networks that it is expected over; none where it is that of a mixture."""

    loss: Tensor
    of_networks: Tensor


@dataclass
class Losses:
    """Cross-entropies of the supernet on normalized images; the inner one with the weight decay it is trained with.

    Where the space samples paths, both losses of a step, and every term of its hypergradient, take the same ones.
    """

    supernet: Supernet
    constraint: Constraint
    weight_decay: float
    normalize: Normalization
    paths: Paths | None = None

    def draw_paths(self, alphas: Sequence[Tensor], seed: int) -> None:
        """The paths of the next losses; all ranks draw the same."""
        weights = edge_weights(alphas, self.constraint.prices, self.constraint.scale)
        self.paths = draw_paths(self.constraint.space, weights, seed)

    @property
    def device(self) -> torch.device:
        return self.normalize.mean.device

    def prepare(self, batch: Batch) -> Batch:
        """Normalized, in the memory format of the network."""
        return Batch(self.normalize(batch.images), batch.labels)

    def cross_entropy(self, batch: Batch, alphas: Sequence[Tensor], networks: Sequence[Genotype] = ()) -> Tensor:
        """The loss on a prepared batch: of the mixture, or, given `networks`, expected over them."""
        return self.judge(batch, alphas, networks).loss

    def judge(self, batch: Batch, alphas: Sequence[Tensor], networks: Sequence[Genotype] = ()) -> Judged:
        """The same, with the networks' own losses."""
        prices, scale = self.constraint.prices, self.constraint.scale
        if not networks:
            weights = edge_weights(alphas, prices, scale)
            loss = self._loss(batch, lambda images: self.supernet(images, weights, self.paths))
            return Judged(loss, loss.new_zeros(0))
        each = torch.stack([self._loss(batch, partial(self.supernet.run, genotype=network)) for network in networks])
        chances = log_chances(self.supernet.space, alphas, prices, scale, networks)
        return Judged(expected_loss(each, chances), each)

    def _loss(self, batch: Batch, classify: Callable[[Tensor], Tensor]) -> Tensor:
        """Mixed precision on CUDA."""
        with torch.autocast(self.device.type, enabled=self.device.type == "cuda"):
            logits = classify(batch.images)
        return nn.functional.cross_entropy(logits.float(), batch.labels)

    def inner(self, batch: Batch, alphas: Sequence[Tensor], networks: Sequence[Genotype] = ()) -> Tensor:
        """What the weights minimize: L_train + decay / 2 · ‖w‖²."""
        squares = torch.stack([weight.square().sum() for weight in self.supernet.parameters()]).sum()
        return self.cross_entropy(batch, alphas, networks) + self.weight_decay / 2 * squares
