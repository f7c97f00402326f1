"""What an untrained network makes of images, seen in one pass. Images are looked at, labels are not.

- *Distinctness* (Mellor et al., 2021): which ReLUs an image switches on is its pattern. With K[i, j] = the number of
  ReLUs on which images i and j agree, ln det K is large when the patterns are unlike each other, and many.
- *Arrival* and *progress* (Lee and Ham, 2024): in how many directions the features of a part of the network vary is the
  entropy of the normalized eigenvalues of their covariance. Arrival is that of the last part, progress the smallest
  growth from one part to the next: it tells of the part that throws most away.
"""

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from pipeline.space.genotype import Genotype
from pipeline.space.network import Network
from pipeline.space.skeleton import Skeleton


class Activations(NamedTuple):
    """Figures of one network; more is better."""

    distinctness: float
    progress: float
    arrival: float


def look_at_activations(skeleton: Skeleton, genotype: Genotype, images: Tensor, seed: int = 0) -> Activations:
    """The figures of a network with random weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = Network(skeleton, genotype).to(images.device).to(memory_format=torch.channels_last)
    patterns: list[Tensor] = []
    entropies: list[float] = []
    for module in network.modules():
        if isinstance(module, nn.ReLU):
            module.register_forward_hook(lambda _module, _inputs, output: patterns.append(output.flatten(1) > 0))
    for part in network.parts:
        part.register_forward_hook(lambda _module, _inputs, output: entropies.append(direction_entropy(output)))
    with torch.no_grad():
        network.train()(images.contiguous(memory_format=torch.channels_last))  # BatchNorm sees the images too
    growths = [later - before for before, later in pairwise(entropies)]
    return Activations(_log_det_agreement(patterns), min(growths, default=0.0), entropies[-1])


def direction_entropy(features: Tensor) -> float:
    """The entropy of how the variance of [N, C, H, W] is spread over directions: 0 for one, ln C for all alike."""
    columns = features.transpose(0, 1).flatten(1)
    eigenvalues = torch.linalg.eigvalsh(torch.cov(columns).double().reshape(len(columns), -1)).clamp_min(0)
    total = eigenvalues.sum()
    if not total > 0:
        return 0.0
    return float(torch.special.entr(eigenvalues / total).sum())


def _log_det_agreement(patterns: list[Tensor]) -> float:
    """ln det K; −∞ when two images have the same pattern."""
    if not patterns:
        return -math.inf
    on = torch.cat(patterns, dim=1).float()
    agreement = on @ on.T + (1 - on) @ (1 - on).T
    sign, log_determinant = np.linalg.slogdet(agreement.double().cpu().numpy())
    return float(log_determinant) if sign > 0 else -math.inf
