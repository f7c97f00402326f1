"""What is learned of every training image: raw numbers λ, and the values that they stand for.

weight  s(λW) = softplus(λW) / ln 2           1 at λW = 0
label   S(λS) = softmax(λS) over the classes  1 − α + α/C on the given label at first, α/C on every other one
λA      probabilities and magnitudes of an affine warp (augmentation.py)
"""

import math

import torch
from torch import Tensor
from torch.nn import functional

from pipeline.autodo.augmentation import start_augmentation

Rows = dict[str, Tensor]
"""Raw λ by what they stand for (weights, labels, augmentation), a row per image."""


def weights_of(raw: Tensor) -> Tensor:
    """s(λW)"""
    return functional.softplus(raw) / math.log(2.0)


def labels_of(raw: Tensor) -> Tensor:
    """S(λS)"""
    return raw.softmax(-1)


def start_labels(targets: Tensor, classes: int, softness: float) -> Tensor:
    """λS = ln(1 − C + C/α) · (onehot − ½), with α the softness."""
    scale = math.log(1 - classes + classes / softness)
    return scale * (functional.one_hot(targets, classes).to(torch.get_default_dtype()) - 0.5)


def start_rows(parts: frozenset[str], targets: Tensor, classes: int, softness: float) -> Rows:
    """All λ before anything was learned."""
    rows = {"weights": torch.zeros(len(targets), device=targets.device)}
    if "labels" in parts:
        rows["labels"] = start_labels(targets, classes, softness)
    if "augmentation" in parts:
        rows["augmentation"] = start_augmentation(len(targets), targets.device)
    return rows
