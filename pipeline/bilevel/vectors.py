"""Algebra on vectors that live in several tensors (the weights of a network, the alphas of its cells)."""

import math
from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

Vector = list[Tensor]


def dot(a: Sequence[Tensor], b: Sequence[Tensor]) -> float:
    """a . b"""
    products = [torch.dot(x.reshape(-1), y.reshape(-1)) for x, y in zip(a, b, strict=True)]
    return float(torch.stack(products).sum()) if products else 0.0


def norm(a: Sequence[Tensor]) -> float:
    """||a||; not finite exactly when an entry is not (or its square overflows)."""
    return math.sqrt(squared) if not math.isnan(squared := dot(a, a)) else math.nan


def add(a: Sequence[Tensor], b: Sequence[Tensor], scale: float = 1.0) -> Vector:
    """a + scale * b"""
    return [torch.add(x, y, alpha=scale) for x, y in zip(a, b, strict=True)]


def scaled(a: Sequence[Tensor], scale: float) -> Vector:
    """scale * a"""
    return [x * scale for x in a]


def zeros_like(a: Sequence[Tensor]) -> Vector:
    """0, in the shapes of a."""
    return [torch.zeros_like(x, requires_grad=False) for x in a]


def copies(a: Sequence[Tensor]) -> Vector:
    """a, in memory of its own."""
    return [x.detach().clone() for x in a]


def flatten(a: Sequence[Tensor]) -> Tensor:
    """a as one column."""
    return torch.cat([x.reshape(-1) for x in a])


def unflatten(flat: Tensor, like: Sequence[Tensor]) -> Vector:
    """The column cut into the shapes of `like`."""
    ends = list(accumulate(x.numel() for x in like))
    return [flat[end - x.numel() : end].reshape(x.shape) for end, x in zip(ends, like, strict=True)]


def machine_epsilon(a: Sequence[Tensor]) -> float:
    """The coarsest unit roundoff among the tensors."""
    return max(torch.finfo(x.dtype).eps for x in a)
