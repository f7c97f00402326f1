"""Synaptic flow: how much of a signal a network passes on, known before any training (Tanaka et al., 2020).

    R = Σ_θ |θ · ∂/∂θ Σ f(1; |θ|)|

with BatchNorm as it is before training, the identity. No image and no label is looked at.
"""

import math

import torch

from pipeline.space.genotype import Genotype
from pipeline.space.network import Network
from pipeline.space.skeleton import Skeleton


def log_flow(skeleton: Skeleton, genotype: Genotype, seed: int = 0) -> float:
    """ln R of a network with random weights; −∞ when no signal comes through."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = Network(skeleton, genotype).double().eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.abs_()
    weights = [parameter for parameter in network.parameters() if parameter.ndim > 1]  # neither bias nor BatchNorm
    ones = torch.ones(1, skeleton.in_channels, skeleton.resolution, skeleton.resolution, dtype=torch.float64)
    gradients = torch.autograd.grad(network(ones).sum(), weights, allow_unused=True)
    with torch.no_grad():
        flow = sum(float((w * g).abs().sum()) for w, g in zip(weights, gradients, strict=True) if g is not None)
    return math.log(flow) if flow > 0 else -math.inf
