"""Sampled paths: a step of the search runs a few operations per edge instead of all.

The mixture of 13 inverted bottlenecks on each of 22 layers keeps all their widened feature maps for the gradient,
several gigabytes at 96 px. So `paths` operations are drawn on every edge without replacement, each with its weight as
probability (ProxylessNAS draws two likewise), and the mixture is taken among them:

    ŵ_o = w_o / Σ over drawn o' of w_o'          for drawn o, 0 for the others

Time and memory fall alike, the network that is selected has the very operations that were trained, and a mixture that
has made up its mind is that network. Partial channels would save as much memory, but train narrower operations than
those that are deployed; recomputing the mixture layer by layer would save memory only and double the time.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from pipeline.space.cells import Space

Paths = list[Tensor]


def draw_paths(space: Space, weights: Sequence[Tensor], seed: int) -> Paths | None:
    """Which operations run: one [edges, operations] mask per kind of cell, or None where all kinds run all.

    The largest of log w + Gumbel noise are a draw without replacement. An operation of weight 0 is never drawn.
    """
    if all(kind.paths is None for kind in space.kinds):
        return None
    generator = torch.Generator().manual_seed(seed)
    masks = []
    for kind, weight in zip(space.kinds, weights, strict=True):
        logs = weight.detach().double().cpu().log()
        noise = -torch.empty_like(logs).exponential_(generator=generator).log()
        drawn = (logs + noise).topk(min(kind.paths or logs.shape[-1], logs.shape[-1])).indices
        masks.append(torch.zeros_like(logs, dtype=torch.bool).scatter(-1, drawn, True) & (logs > -torch.inf))
    return masks


def restrict_weights(weights: Sequence[Tensor], paths: Paths) -> list[Tensor]:
    """The weights among the drawn operations, which add up to 1 on every edge again."""
    return [_normalize(weight * mask.to(weight)) for weight, mask in zip(weights, paths, strict=True)]


def _normalize(weights: Tensor) -> Tensor:
    return weights / weights.sum(-1, keepdim=True)
