"""The gradient of the guide loss in λ, through the weights θ of the last linear layer.

Notation: h features, θ weight matrix of the last layer (its bias and all below it are taken for constant), H = d²L/dθ².

    inner  L(θ, λ) = mean_i s(λW_i) · ℓ_i(θ h_i; S_i) + decay/2 · ‖θ‖²   on training images
    outer  L_v(θ)  = mean cross entropy of θ h                           on guide images
    dL_v/dλ        = −∇θL_v · H⁻¹ · ∂²L/∂θ∂λ

Where λA is learned, h_i depends on it through the warped image and all layers below the last one: ∂²L/∂θ∂λA takes the
first derivative of these layers and never a second one.

With several ranks, λ are the rows of the whole batch and each rank's loss reads its own: averages over ranks are exact.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from pipeline.autodo.losses import weighted_loss
from pipeline.autodo.parameters import Rows
from pipeline.bilevel import Method, hypergradient
from pipeline.resumable.ranks import average


class Encoded(NamedTuple):
    """What the last layer sees of some images: features [B, D] and labels [B]."""

    features: Tensor
    labels: Tensor


@dataclass(frozen=True)
class LastLayer:
    """The bilevel problem of one step; `own` are this rank's images within the rows of the whole batch.

    `encode` gives the features of these images under rows of λA; `train` holds those under the rows as they are.
    """

    weight: Tensor
    bias: Tensor | None
    decay: float
    train: Encoded
    guide: Encoded
    rows: Rows
    own: slice
    encode: Callable[[Tensor], Tensor] | None = None

    def inner(self, w: Sequence[Tensor], alpha: Sequence[Tensor]) -> Tensor:
        """L(θ, λ)"""
        rows = {name: value[self.own] for name, value in zip(self.rows, alpha, strict=True)}
        features = self.train.features if self.encode is None else self.encode(rows["augmentation"])
        loss = weighted_loss(functional.linear(features, w[0], self.bias), self.train.labels, rows)
        return loss + self.decay / 2 * w[0].square().sum()

    def outer(self, w: Sequence[Tensor], alpha: Sequence[Tensor]) -> Tensor:
        """L_v(θ)"""
        return functional.cross_entropy(functional.linear(self.guide.features, w[0], self.bias), self.guide.labels)

    def gradients(self, method: Method) -> Rows:
        """dL_v/dλ for the rows of the whole batch, the same on all ranks."""
        theta, alpha = _leaf(self.weight), [_leaf(value) for value in self.rows.values()]
        found = hypergradient(self.inner, self.outer, [theta], alpha, method, reduce=average)
        return dict(zip(self.rows, found, strict=True))

    def gap(self) -> float:
        """‖∇θL − ∇θL_v‖²: how far what is learned from is from what is wanted."""
        theta, alpha, known = _leaf(self.weight), list(self.rows.values()), replace(self, encode=None)
        with torch.enable_grad():
            difference = known.inner([theta], alpha) - self.outer([theta], alpha)
        (gradient,) = average(torch.autograd.grad(difference, [theta]))
        return float(gradient.square().sum())


def _leaf(value: Tensor) -> Tensor:
    return value.detach().clone().requires_grad_()
