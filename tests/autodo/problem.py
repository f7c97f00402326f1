"""A softmax layer small enough to write out, in float64."""

from dataclasses import replace

import torch
from torch import Tensor

from pipeline.autodo.augmentation import NUMBERS, Noise, augment
from pipeline.autodo.last_layer import Encoded, LastLayer
from pipeline.autodo.parameters import Rows

IMAGES, GUIDE, FEATURES, CLASSES = 7, 5, 4, 3


def randn(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make_problem(decay: float = 0.1, with_labels: bool = False, bias: bool = True) -> LastLayer:
    rows: Rows = {"weights": randn(IMAGES, seed=1)}
    if with_labels:
        rows["labels"] = randn(IMAGES, CLASSES, seed=2)
    return LastLayer(
        weight=randn(CLASSES, FEATURES, seed=3),
        bias=randn(CLASSES, seed=4) if bias else None,
        decay=decay,
        train=Encoded(randn(IMAGES, FEATURES, seed=5), torch.arange(IMAGES) % CLASSES),
        guide=Encoded(randn(GUIDE, FEATURES, seed=6), (torch.arange(GUIDE) + 1) % CLASSES),
        rows=rows,
        own=slice(None),
    )


def make_augmented_problem(decay: float = 0.1) -> LastLayer:
    """The same layer on top of one with tanh that sees small images, warped by their λA; all are moved and turned."""
    images, below = randn(IMAGES, 1, 4, 4, seed=7), randn(FEATURES, 16, seed=8)
    noise = Noise(randn(IMAGES, NUMBERS // 2, seed=9), randn(IMAGES, NUMBERS // 2, seed=10))
    raw = randn(IMAGES, NUMBERS, seed=11)
    raw[:, :3] = 6.0

    def encode(rows: Tensor) -> Tensor:
        return torch.tanh(augment(images, rows, noise).flatten(1) @ below.T)

    plain = make_problem(decay, with_labels=True)
    return replace(
        plain,
        train=Encoded(encode(raw), plain.train.labels),
        rows={**plain.rows, "augmentation": raw},
        encode=encode,
    )
