"""Activation patterns: how differently an untrained network treats different images (Mellor et al., 2021).

The pattern of an image is which ReLUs it switches on. With K[i, j] = the number of ReLUs on which images i and j agree,
ln det K is large when the patterns are unlike each other, and many. Images are looked at, labels are not.
"""

import math

import numpy as np
import torch
from torch import Tensor, nn

from pipeline.space.genotype import Genotype
from pipeline.space.network import Network
from pipeline.space.skeleton import Skeleton


def log_distinctness(skeleton: Skeleton, genotype: Genotype, images: Tensor, seed: int = 0) -> float:
    """ln det K of a network with random weights; −∞ when two images have the same pattern."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = Network(skeleton, genotype).to(images.device).to(memory_format=torch.channels_last)
    patterns: list[Tensor] = []
    for module in network.modules():
        if isinstance(module, nn.ReLU):
            module.register_forward_hook(lambda _module, _inputs, output: patterns.append(output.flatten(1) > 0))
    with torch.no_grad():
        network.train()(images.contiguous(memory_format=torch.channels_last))  # BatchNorm sees the images too
    if not patterns:
        return -math.inf
    on = torch.cat(patterns, dim=1).float()
    agreement = on @ on.T + (1 - on) @ (1 - on).T
    sign, log_determinant = np.linalg.slogdet(agreement.double().cpu().numpy())
    return float(log_determinant) if sign > 0 else -math.inf
