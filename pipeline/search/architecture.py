"""The architecture's gradient in a search: the method in use, its fallbacks, and a check of it.

Where the solve diverges, γ is halved. Where it ends with a residual ‖V₀ − H x‖ / ‖V₀‖ ≥ 1, no nearer than x = 0, the
indirect part is worse than none and the step takes the first-order gradient.

Where single networks are judged, the direct part needs their losses alone and is the mean over all groups since the
last step, while the indirect part takes many gradients and is that of a few networks S of the last group:

    dL/dα ≈ mean over groups of ∂L_group/∂α + (dL_S/dα − ∂L_S/∂α)
"""

from collections.abc import Sequence
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
from pipeline.bilevel.problem import preserved
from pipeline.data import Batch
from pipeline.errors import PromiseBroken
from pipeline.resumable.ranks import average
from pipeline.search.losses import Losses
from pipeline.search.methods import Progress, make_method, misses_solution, reference_method
from pipeline.search_config import SearchConfig
from pipeline.space.genotype import Genotype

_ATTEMPTS = 5
_CHECK_IMAGES = 16


class SearchDiverged(PromiseBroken):
    """The search cannot go on; the best architecture so far is kept."""


class ArchitectureGradient(NamedTuple):
    """The hypergradient of the validation loss at one step, how it was got, and what the budget penalty adds to it."""

    gradient: list[Tensor]
    penalty: list[Tensor]
    validation_loss: float
    gamma: float
    halvings: int
    is_first_order: bool
    """Whether the direct part stands alone, because the solve ended no nearer than it began."""
    diagnostics: Diagnostics


class Group(NamedTuple):
    """Networks, and the prepared validation images that they are judged on; no networks where the mixture is."""

    images: Batch
    networks: Sequence[Genotype] = ()


class JudgedGroup(NamedTuple):
    """Networks of a group, and their losses."""

    networks: Sequence[Genotype]
    losses: Sequence[float]


class _Direct(NamedTuple):
    """An expected loss, and its gradient at the present weights."""

    loss: float
    gradient: list[Tensor]


class _Solved(NamedTuple):
    """A hypergradient, the loss it is of, and how it was got."""

    result: HypergradientResult
    loss: float
    gamma: float
    halvings: int
    missed: bool


class ArchitectureGradients:
    """Computes dL_val·exp(λ·overshoot)/dα at the present weights."""

    def __init__(self, config: SearchConfig, losses: Losses, alphas: Sequence[Tensor]) -> None:
        self.config, self.losses, self.alphas = config, losses, list(alphas)
        self.buffers = list(losses.supernet.buffers())

    @property
    def weights(self) -> list[Tensor]:
        """Those on the present paths: the losses do not depend on others, whose part of every term would be zero."""
        return list(self.losses.supernet.parameters_on(self.losses.paths))

    @torch.no_grad()
    def judge(self, group: Group) -> list[float]:
        """The loss of every network over all ranks; the supernet's statistics are left alone."""
        with preserved(self.buffers):
            losses = self.losses.judge(group.images, self.alphas, group.networks).of_networks
        found: list[float] = average([losses])[0].tolist()
        return found

    def compute(
        self,
        train: Batch,
        group: Group,
        judged: Sequence[JudgedGroup],
        penalty: float,
        rate: float,
        progress: Progress,
    ) -> ArchitectureGradient:
        """`train` is the last training batch, `group` the last of the judged ones: at the weights as they are now."""
        count = self.config.implicit_networks
        solved = self._solve(
            train, group._replace(networks=group.networks[:count]), self.config.gamma or rate, progress
        )
        loss, direct = solved.loss, solved.result.direct
        own = direct
        if judged:
            loss, direct = self._direct(judged)
            own = self._direct([JudgedGroup(judged[-1].networks[:count], judged[-1].losses[:count])]).gradient
        parts = zip(direct, solved.result.gradient, own, strict=True)
        return ArchitectureGradient(
            direct if solved.missed else [mean + (total - part) for mean, total, part in parts],
            self._penalty_gradient(loss, penalty),
            loss,
            solved.gamma,
            solved.halvings,
            solved.missed,
            solved.result.diagnostics,
        )

    def _direct(self, judged: Sequence[JudgedGroup]) -> _Direct:
        """The mean over groups whose losses are known, and its gradient."""
        losses = [
            self.losses.expect(self.alphas[0].new_tensor(one.losses), self.alphas, one.networks) for one in judged
        ]
        loss = torch.stack(losses).mean()
        return _Direct(float(loss.detach()), list(torch.autograd.grad(loss, self.alphas)))

    def _solve(self, train: Batch, group: Group, gamma: float, progress: Progress) -> _Solved:
        """At γ or the first half, quarter, … of it at which the method stays bounded."""
        for halvings in range(_ATTEMPTS):
            step, seen = gamma / 2**halvings, list[Tensor]()
            method = make_method(self.config, step, progress)
            try:
                result = self._hypergradient(train, group, method, seen)
            except HypergradientError as error:
                reason = str(error)
                continue
            loss = float(average(seen[-1:])[0])
            return _Solved(result, loss, step, halvings, misses_solution(method, result.diagnostics))
        raise SearchDiverged(f"the hypergradient failed {_ATTEMPTS} times in a row: {reason}")

    def _penalty_gradient(self, validation_loss: float, penalty: float) -> list[Tensor]:
        """What the second factor of the objective adds: it does not depend on the weights."""
        loss = self.alphas[0].new_tensor(validation_loss)
        objective = self.losses.constraint.penalize(loss, self.alphas, penalty)
        if not objective.requires_grad:
            return [torch.zeros_like(alpha) for alpha in self.alphas]
        return list(torch.autograd.grad(objective, self.alphas, allow_unused=True, materialize_grads=True))

    def _hypergradient(
        self, train: Batch, group: Group, method: Method, seen: list[Tensor] | None = None
    ) -> HypergradientResult:
        """Of the group's expected loss, or the mixture's; `seen` gains every value of it."""

        def outer(w: Sequence[Tensor], alpha: Sequence[Tensor]) -> Tensor:
            loss = self.losses.cross_entropy(group.images, self.alphas, group.networks)
            if seen is not None:
                seen.append(loss.detach())
            return loss

        inner = self.losses.inner(train, self.alphas, group.networks)
        return hypergradient_with_diagnostics(
            inner, outer, self.weights, self.alphas, method, reduce=average, buffers=self.buffers
        )

    def check(self, train: Batch, group: Group, rate: float) -> float | None:
        """Cosine of the indirect part between the method in use and its reference on a few images.

        None if one of them fails or there is no reference.
        """
        batch, images = (Batch(*(part[:_CHECK_IMAGES] for part in batch)) for batch in (train, group.images))
        few = Group(images, group.networks[: self.config.implicit_networks])
        gamma = self.config.gamma or rate
        compared_with = reference_method(self.config, gamma)
        if compared_with is None:
            return None
        try:
            used, reference = (
                torch.cat([part.flatten() for part in self._hypergradient(batch, few, method).indirect])
                for method in (make_method(self.config, gamma), compared_with)
            )
        except HypergradientError:
            return None
        return float(torch.nn.functional.cosine_similarity(used, reference, dim=0))
