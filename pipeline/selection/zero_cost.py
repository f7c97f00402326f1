"""Zero-cost proxies: figures of a network with random weights; more is meant to be better.

- *synflow* (Tanaka et al., 2020): how much of a signal the network passes on, R = Σ_θ |θ · ∂/∂θ Σ f(1; |θ|)| with
  BatchNorm the identity. Neither images nor labels are looked at.
- *NASWOT* (Mellor et al., 2021): which ReLUs an image switches on is its pattern. With K[i, j] = the number of ReLUs on
  which images i and j agree, ln det K is large when the patterns are unlike each other, and many.
- *expressivity* and *progressivity* (AZ-NAS; Lee and Ham, 2024): in how many directions the features of a part of the
  network vary is the entropy of the normalized eigenvalues of their covariance. Expressivity is that of the last part,
  progressivity the smallest growth from one part to the next: it tells of the part that throws most away.
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


class ActivationProxies(NamedTuple):
    """What one forward pass of images shows."""

    naswot: float
    progressivity: float
    expressivity: float


def log_synflow(skeleton: Skeleton, genotype: Genotype, seed: int = 0) -> float:
    """ln R of a network with random weights; −∞ when no signal comes through."""
    network = _random_network(skeleton, genotype, seed).double().eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.abs_()
    weights = [parameter for parameter in network.parameters() if parameter.ndim > 1]  # neither bias nor BatchNorm
    ones = torch.ones(1, skeleton.in_channels, skeleton.resolution, skeleton.resolution, dtype=torch.float64)
    gradients = torch.autograd.grad(network(ones).sum(), weights, allow_unused=True)
    with torch.no_grad():
        flow = sum(float((w * g).abs().sum()) for w, g in zip(weights, gradients, strict=True) if g is not None)
    return math.log(flow) if flow > 0 else -math.inf


def activation_proxies(skeleton: Skeleton, genotype: Genotype, images: Tensor, seed: int = 0) -> ActivationProxies:
    """The figures of a network with random weights on normalized images."""
    network = _random_network(skeleton, genotype, seed).to(images.device).to(memory_format=torch.channels_last)
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
    return ActivationProxies(_log_det_agreement(patterns), min(growths, default=0.0), entropies[-1])


def direction_entropy(features: Tensor) -> float:
    """The entropy of how the variance of [N, C, H, W] is spread over directions: 0 for one, ln C for all alike."""
    columns = features.transpose(0, 1).flatten(1)
    eigenvalues = torch.linalg.eigvalsh(torch.cov(columns).double().reshape(len(columns), -1)).clamp_min(0)
    total = eigenvalues.sum()
    if not total > 0:
        return 0.0
    return float(torch.special.entr(eigenvalues / total).sum())


def _random_network(skeleton: Skeleton, genotype: Genotype, seed: int) -> Network:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Network(skeleton, genotype)


def _log_det_agreement(patterns: list[Tensor]) -> float:
    """ln det K; −∞ when two images have the same pattern."""
    if not patterns:
        return -math.inf
    on = torch.cat(patterns, dim=1).float()
    agreement = on @ on.T + (1 - on) @ (1 - on).T
    sign, log_determinant = np.linalg.slogdet(agreement.double().cpu().numpy())
    return float(log_determinant) if sign > 0 else -math.inf
