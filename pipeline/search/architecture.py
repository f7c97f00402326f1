"""The architecture's gradient in a search: the method in use, its fallbacks, and a check of it.

Where the solve diverges, γ is halved. Where it ends with a residual ‖V₀ − H x‖ / ‖V₀‖ ≥ 1, no nearer than x = 0, the
indirect part is worse than none and the step takes the first-order gradient.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from pipeline.bilevel import (
    Diagnostics,
    HypergradientError,
    HypergradientResult,
    Method,
    hypergradient_with_diagnostics,
)
from pipeline.data import Batch
from pipeline.errors import PromiseBroken
from pipeline.resumable.ranks import average
from pipeline.search.losses import Judged, Losses
from pipeline.search.methods import Progress, make_method, misses_solution, reference_method
from pipeline.search_config import SearchConfig
from pipeline.space.genotype import Genotype

Loss = Callable[[Sequence[Tensor], Sequence[Tensor]], Tensor]
_ATTEMPTS = 5
_CHECK_IMAGES = 16


class SearchDiverged(PromiseBroken):
    """The search cannot go on; the best architecture so far is kept."""


class ArchitectureGradient(NamedTuple):
    """The hypergradient of the validation loss at one step, how it was got, and what the budget penalty adds to it."""

    gradient: list[Tensor]
    penalty: list[Tensor]
    validation_loss: float
    network_losses: list[float]
    gamma: float
    halvings: int
    is_first_order: bool
    """Whether the direct part stands alone, because the solve ended no nearer than it began."""
    diagnostics: Diagnostics


@dataclass(frozen=True)
class BatchPair:
    """What one architecture step sees: the last training batch and the next validation batch, both prepared.

    Their losses are those of the mixture, or expected over `networks`.
    """

    train: Batch
    validation: Batch
    networks: Sequence[Genotype] = ()


class ArchitectureGradients:
    """Computes dL_val·exp(λ·overshoot)/dα at the present weights."""

    def __init__(self, config: SearchConfig, losses: Losses, alphas: Sequence[Tensor]) -> None:
        self.config, self.losses, self.alphas = config, losses, list(alphas)
        self.buffers = list(losses.supernet.buffers())

    @property
    def weights(self) -> list[Tensor]:
        """Those on the present paths: the losses do not depend on others, whose part of every term would be zero."""
        return list(self.losses.supernet.parameters_on(self.losses.paths))

    def compute(self, pair: BatchPair, penalty: float, rate: float, progress: Progress) -> ArchitectureGradient:
        """At the configured γ (0: the learning rate) or the first half, quarter, … at which the solve stays bounded."""
        gamma = self.config.gamma or rate
        for halvings in range(_ATTEMPTS):
            try:
                return self._compute_at(gamma / 2**halvings, halvings, pair, penalty, progress)
            except HypergradientError as error:
                reason = str(error)
        raise SearchDiverged(f"the hypergradient failed {_ATTEMPTS} times in a row: {reason}")

    def _compute_at(
        self, gamma: float, halvings: int, pair: BatchPair, penalty: float, progress: Progress
    ) -> ArchitectureGradient:
        seen: list[Judged] = []

        def outer(w: Sequence[Tensor], alpha: Sequence[Tensor]) -> Tensor:
            seen.append(self.losses.judge(pair.validation, self.alphas, pair.networks))
            return seen[-1].loss

        method = make_method(self.config, gamma, progress)
        result = self._hypergradient(pair, outer, method)
        missed = misses_solution(method, result.diagnostics)
        gradient = result.direct if missed else result.gradient
        loss, each = average([part.detach() for part in seen[-1]])
        added = self._penalty_gradient(float(loss), penalty)
        return ArchitectureGradient(
            gradient, added, float(loss), each.tolist(), gamma, halvings, missed, result.diagnostics
        )

    def _penalty_gradient(self, validation_loss: float, penalty: float) -> list[Tensor]:
        """What the second factor of the objective adds: it does not depend on the weights."""
        loss = self.alphas[0].new_tensor(validation_loss)
        objective = self.losses.constraint.penalize(loss, self.alphas, penalty)
        if not objective.requires_grad:
            return [torch.zeros_like(alpha) for alpha in self.alphas]
        return list(torch.autograd.grad(objective, self.alphas, allow_unused=True, materialize_grads=True))

    def _hypergradient(self, pair: BatchPair, outer: Loss, method: Method) -> HypergradientResult:
        inner = self.losses.inner(pair.train, self.alphas, pair.networks)
        return hypergradient_with_diagnostics(
            inner, outer, self.weights, self.alphas, method, reduce=average, buffers=self.buffers
        )

    def check(self, pair: BatchPair, rate: float) -> float | None:
        """Cosine of the indirect part between the method in use and its reference on a few images.

        None if one of them fails or there is no reference.
        """
        train, validation = (
            Batch(*(part[:_CHECK_IMAGES] for part in batch)) for batch in (pair.train, pair.validation)
        )
        few = BatchPair(train, validation, pair.networks)
        gamma = self.config.gamma or rate
        compared_with = reference_method(self.config, gamma)
        if compared_with is None:
            return None

        def outer(w: Sequence[Tensor], alpha: Sequence[Tensor]) -> Tensor:
            return self.losses.cross_entropy(few.validation, self.alphas, few.networks)

        try:
            used, reference = (
                torch.cat([part.flatten() for part in self._hypergradient(few, outer, method).indirect])
                for method in (make_method(self.config, gamma), compared_with)
            )
        except HypergradientError:
            return None
        return float(torch.nn.functional.cosine_similarity(used, reference, dim=0))
