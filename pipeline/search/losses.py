"""The two losses of the bilevel problem, as functions of a batch and the supernet's present state."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from pipeline.bilevel import Composition
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
        return batch._replace(images=self.normalize(batch.images))

    def cross_entropy(self, batch: Batch, alphas: Sequence[Tensor], networks: Sequence[Genotype] = ()) -> Tensor:
        """The loss on a prepared batch: of the mixture, or, given `networks`, expected over them."""
        return self.judge(batch, alphas, networks).loss

    def judge(self, batch: Batch, alphas: Sequence[Tensor], networks: Sequence[Genotype] = ()) -> Judged:
        """The same, with the networks' own losses."""
        return self._judge(self._logits(batch, alphas, networks), batch, alphas, networks)

    def inner(self, batch: Batch, alphas: Sequence[Tensor], networks: Sequence[Genotype] = ()) -> Composition:
        """What the weights minimize: L_train + decay / 2 · ‖w‖², a convex function of the logits and the weights.

        The bilevel library writes perturbed weights into the supernet's own, so its arguments can be left unread.
        """

        def outputs(w: Sequence[Tensor], alpha: Sequence[Tensor]) -> list[Tensor]:
            return [*self._logits(batch, alphas, networks), *self.supernet.parameters()]

        def convex(z: Sequence[Tensor], alpha: Sequence[Tensor]) -> Tensor:
            judged = max(1, len(networks))
            squares = torch.stack([weight.square().sum() for weight in z[judged:]]).sum()
            return self._judge(z[:judged], batch, alphas, networks).loss + self.weight_decay / 2 * squares

        return Composition(outputs, convex)

    def _logits(self, batch: Batch, alphas: Sequence[Tensor], networks: Sequence[Genotype]) -> list[Tensor]:
        """Of the mixture, or of every network; mixed precision on CUDA."""
        with torch.autocast(self.device.type, enabled=self.device.type == "cuda"):
            if networks:
                return [self.supernet.run(batch.images, network).float() for network in networks]
            weights = edge_weights(alphas, self.constraint.prices, self.constraint.scale)
            return [self.supernet(batch.images, weights, self.paths).float()]

    def _judge(
        self, logits: Sequence[Tensor], batch: Batch, alphas: Sequence[Tensor], networks: Sequence[Genotype]
    ) -> Judged:
        each = torch.stack([nn.functional.cross_entropy(one, batch.labels) for one in logits])
        if not networks:
            return Judged(each[0], each[:0])
        return Judged(self.expect(each, alphas, networks), each)

    def expect(self, losses: Tensor, alphas: Sequence[Tensor], networks: Sequence[Genotype]) -> Tensor:
        """The expected loss of networks whose own are known, with its gradient in alpha."""
        chances = log_chances(self.supernet.space, alphas, self.constraint.prices, self.constraint.scale, networks)
        return expected_loss(losses, chances)
