"""The expected cost of the network that the architecture parameters point to, differentiable in them."""

from collections.abc import Sequence
from itertools import combinations

import torch
from torch import Tensor

from pipeline.space.cells import CellKind, Space
from pipeline.space.costs import Costs
from pipeline.space.score import log_odds, passing_logits


def expected_cost(space: Space, costs: Costs, alphas: Sequence[Tensor]) -> Tensor:
    """E[cost] of the discretized network.

    An operation is drawn on every edge with the softmax over all but `none`; a node keeps each set of `keep`
    inputs with the softmax of the sum of their best scores. As α → tα grows the draw becomes the selected genotype.
    """
    total = alphas[0].new_tensor(costs.fixed)
    for kind, alpha in zip(space.kinds, alphas, strict=True):
        cost = torch.as_tensor(costs.choices[kind.name]).to(alpha)
        logits = passing_logits(kind, alpha)
        per_edge = (logits.softmax(-1) * cost).sum(-1)
        total = total + (_keep_probabilities(kind, log_odds(logits).amax(-1)) * per_edge).sum()
    return total


def _keep_probabilities(kind: CellKind, best: Tensor) -> Tensor:
    """How likely each edge survives the cut, from the best score on it."""
    if kind.keep is None:
        return torch.ones_like(best)
    kept = torch.zeros_like(best)
    for node in range(kind.nodes):
        sets = torch.tensor(list(combinations(kind.edges_into(node), kind.keep)), device=best.device)
        chance = best[sets].sum(-1).softmax(0)
        kept = kept.index_add(0, sets.flatten(), chance.repeat_interleave(kind.keep))
    return kept
