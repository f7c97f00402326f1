"""From architecture parameters to weights, scores and the genotype they point to.

On an edge with parameters α and relative prices p, the logit of operation o is

    α̃_o / p_o,   α̃_o = α_o − min α + 1        ("shifted": at equal α a cheaper operation always weighs more)
    α_o / p_o                                   ("literal": eq. 9 as printed)
    α_o                                         ("off": plain DARTS)

The supernet mixes with the softmax of the logits: there the price belongs. The *score* of an operation is free of it,
for selection has a hard budget, and a price in both would let a cheap operation lead before anything is learned. It is
the log-odds of α among the operations that pass something on, α_o − logsumexp of the others: monotone in its
probability, and, unlike the log-probability, it keeps growing as α does, so that the strongest input stays visible when
every edge has made up its mind. The α of `none` says nothing: it only scales what the other operations pass on. Where
`none` may be chosen it scores what the weakest of them does, so that it is taken to save cost, not for its own sake.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from pipeline.space.cells import CellKind, Gene, Space
from pipeline.space.costs import Costs
from pipeline.space.genotype import Genotype

Scale = Literal["shifted", "literal", "off"]

# The costliest operation outweighs the cheapest when its α is ahead by high / low − 1 = 0.56, which a search can learn
# (a range of 0.5 to 3 would ask for 5, and select the cheapest whatever the data say). At α = 0 every operation of
# eight has more than 8 %.
PRICE_RANGE = (0.8, 1.25)


def relative_prices(space: Space, costs: Costs) -> list[Tensor]:
    """p_o: the cost of an operation over the mean of its edge's candidates other than `none`, clipped; [edges, ops]."""
    return [_relative(kind, costs) for kind in space.kinds]


def _relative(kind: CellKind, costs: Costs) -> Tensor:
    cost = costs.choices[kind.name]
    real = [i for i, operation in enumerate(kind.operations) if operation != "none"]
    mean = cost[:, real].mean(axis=1, keepdims=True)
    price = np.divide(cost, mean, out=np.ones_like(cost), where=mean > 0)
    return torch.from_numpy(price.clip(*PRICE_RANGE)).to(torch.float32)


def edge_logits(alpha: Tensor, price: Tensor, scale: Scale) -> Tensor:
    """The logits of one kind of cell, [edges, operations]."""
    if scale == "off":
        return alpha
    price = price.to(alpha)
    return (alpha - alpha.amin(-1, keepdim=True) + 1 if scale == "shifted" else alpha) / price


def edge_weights(alphas: Sequence[Tensor], prices: Sequence[Tensor], scale: Scale) -> list[Tensor]:
    """What the supernet multiplies the operations with."""
    return [edge_logits(a, p, scale).softmax(-1) for a, p in zip(alphas, prices, strict=True)]


def passing_logits(kind: CellKind, logits: Tensor) -> Tensor:
    """The logits with −∞ for `none`, which passes nothing on."""
    none = torch.tensor([operation == "none" for operation in kind.operations], device=logits.device)
    return logits.masked_fill(none, -torch.inf)


def log_odds(logits: Tensor) -> Tensor:
    """logit_o − logsumexp of the other logits in the row; −∞ where the logit is."""
    count = logits.shape[-1]
    others = (
        logits.unsqueeze(-2).expand(*logits.shape, count).masked_fill(torch.eye(count, dtype=torch.bool), -torch.inf)
    )
    return torch.where(logits.isinf(), logits, logits - others.logsumexp(-1))


def operation_scores(space: Space, alphas: Sequence[Tensor]) -> list[Tensor]:
    """The score of every operation on every edge, per kind of cell; −∞ where it cannot be chosen."""
    return [
        _score_kind(kind, log_odds(passing_logits(kind, alpha)))
        for kind, alpha in zip(space.kinds, alphas, strict=True)
    ]


def _score_kind(kind: CellKind, score: Tensor) -> Tensor:
    weakest = score.masked_fill(score.isinf(), torch.inf).amin(-1, keepdim=True)
    return torch.where(score.isinf(), weakest, score) if kind.none_is_choice else score


def argmax_genotype(space: Space, scores: Sequence[Tensor]) -> Genotype:
    """The classic cut: on every edge the best operation, in every node the inputs with the best ones."""
    return Genotype(
        space.name,
        {kind.name: _argmax_kind(kind, score) for kind, score in zip(space.kinds, scores, strict=True)},
    )


def _argmax_kind(kind: CellKind, score: Tensor) -> tuple[tuple[Gene, ...], ...]:
    best, operation = score.detach().max(-1)
    nodes = []
    for node in range(kind.nodes):
        incoming = kind.edges_into(node)
        kept = sorted(sorted(incoming, key=lambda e: -float(best[e]))[: kind.keep])
        nodes.append(tuple(Gene(kind.operations[int(operation[e])], kind.edges[e].source) for e in kept))
    return tuple(nodes)


def genotype_score(space: Space, scores: Sequence[Tensor], genotype: Genotype) -> float:
    """The sum of the scores of the genotype's operations: what selection maximizes."""
    return sum(
        float(score[kept.edge, kind.operations.index(kept.operation)])
        for kind, score in zip(space.kinds, scores, strict=True)
        for kept in genotype.kept(kind)
    )
