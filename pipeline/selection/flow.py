"""Synaptic flow: how much of a signal a network passes on, known before any training (Tanaka et al., 2020).

    R = Σ_θ |θ · ∂/∂θ Σ f(1; |θ|)|

with BatchNorm as it is before training, the identity. ln R of random networks, explained by a sum over their choices
(ridge regression), gives every choice a score: what it adds to ln R on average. No image and no label is looked at,
so it knows nothing of the data; it tells networks that learn from ones that cannot.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch

from pipeline.selection.milp import Scores
from pipeline.space.cells import Space
from pipeline.space.genotype import Genotype
from pipeline.space.network import Network
from pipeline.space.sampling import random_genotype
from pipeline.space.skeleton import Skeleton

_RIDGE = 3.0


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


def explain(space: Space, genotypes: Sequence[Genotype], values: Sequence[float]) -> Scores:
    """Scores whose sums over a network's choices come nearest to the values, in units of the values' spread.

    Networks without a finite value say nothing; a choice that never occurs gets 0.
    """
    seen = [(genotype, value) for genotype, value in zip(genotypes, values, strict=True) if math.isfinite(value)]
    shapes = {kind.name: (len(kind.edges), len(kind.operations)) for kind in space.kinds}
    offsets = dict(zip(shapes, np.cumsum([0, *(e * o for e, o in shapes.values())]), strict=False))
    size = sum(edges * operations for edges, operations in shapes.values())
    chosen = np.zeros((len(seen), size))
    for row, (genotype, _) in enumerate(seen):
        for kind in space.kinds:
            for kept in genotype.kept(kind):
                place = kept.edge * len(kind.operations) + kind.operations.index(kept.operation)
                chosen[row, offsets[kind.name] + place] = 1.0
    y = np.array([value for _, value in seen])
    y = (y - y.mean()) / (y.std() or 1.0)
    centred = chosen - chosen.mean(axis=0)
    score = np.linalg.solve(centred.T @ centred + _RIDGE * np.eye(size), centred.T @ y)
    return {name: score[offsets[name] :][: e * o].reshape(e, o) for name, (e, o) in shapes.items()}


def flow_scores(
    space: Space, skeleton: Skeleton, samples: int, seed: int, progress: Callable[[float], None] = lambda _: None
) -> Scores:
    """The score of every choice, from `samples` random networks of the skeleton."""
    generator = np.random.default_rng(seed)
    genotypes = [random_genotype(space.name, generator) for _ in range(samples)]
    values = []
    for number, genotype in enumerate(genotypes):
        values.append(log_flow(skeleton, genotype, seed))
        progress((number + 1) / samples)
    return explain(space, genotypes, values)


def blend(ours: Scores, theirs: Scores, share: float) -> Scores:
    """(1 − share) · ours + share · theirs, each in units of its own spread; what cannot be chosen stays out."""
    a, b = (_in_own_spread(scores) for scores in (ours, theirs))
    return {
        name: np.where(np.isfinite(score), (1 - share) * a[name] + share * b[name], -np.inf)
        for name, score in ours.items()
    }


def _in_own_spread(scores: Scores) -> Scores:
    """Every edge centred, all divided by their common standard deviation; 0 where a score is not finite."""
    finite = {name: np.where(np.isfinite(score), score, np.nan) for name, score in scores.items()}
    centred = {name: score - np.nanmean(score, axis=1, keepdims=True) for name, score in finite.items()}
    spread = float(np.nanstd(np.concatenate([score.ravel() for score in centred.values()])))
    return {name: np.nan_to_num(score) / (spread or 1.0) for name, score in centred.items()}
