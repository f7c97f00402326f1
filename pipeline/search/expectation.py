"""The search's losses as expectations over networks, instead of the loss of a mixture of all of them.

    L(w, α) = E_z ℓ(w, z),  z a network, drawn edge by edge:  p_α(z) = Π_e p_e(z_e)

    ∂L/∂α = E_z (ℓ(w, z) − b) · ∂ log p_α(z)/∂α                 (score function; b does not change the expectation)

p_e is the latency-scaled softmax among the operations that pass something on. Networks come in *fair groups*: as many
as there are such operations, and on every edge each operation is in one of them (FairNAS), so that all are trained and
judged equally often whatever α says, and b, the mean of the group, is the mean of every edge. The weights carry whole
networks, like the one that is selected, where those of a mixture carry the sum of all operations. `none` has no turn:
networks with fewer edges learn faster, and a supernet that holds them takes that for quality (search-decisions.md).
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from pipeline.space.cells import CellKind, Gene, Space
from pipeline.space.genotype import Genotype
from pipeline.space.score import Scale, edge_logits, passing_logits
from pipeline.space.spaces import space_named


def fair_size(space: str) -> int:
    """How many networks make a fair group: as many as an edge has operations that pass something on."""
    return max(len(_passing(kind)) for kind in space_named(space).kinds)


def draw_fair_group(space: Space, seed: Sequence[int]) -> list[Genotype]:
    """Networks with every operation but `none` once on every edge, as far as the edge is kept; inputs at random."""
    generator, size = np.random.default_rng(seed), fair_size(space.name)
    orders = {
        kind.name: [_shuffle_operations(_passing(kind), size, generator) for _ in kind.edges] for kind in space.kinds
    }
    return [
        Genotype(space.name, {kind.name: _draw_kind(kind, orders[kind.name], i, generator) for kind in space.kinds})
        for i in range(size)
    ]


def _passing(kind: CellKind) -> list[str]:
    return [operation for operation in kind.operations if operation != "none"]


def _shuffle_operations(operations: Sequence[str], size: int, generator: np.random.Generator) -> list[str]:
    """`size` operations: whole permutations, and a part of one at the end where a kind has fewer than another."""
    rounds = -(-size // len(operations))
    return [operations[i] for _ in range(rounds) for i in generator.permutation(len(operations))][:size]


def _draw_kind(
    kind: CellKind, orders: Sequence[Sequence[str]], index: int, generator: np.random.Generator
) -> tuple[tuple[Gene, ...], ...]:
    nodes = []
    for node in range(kind.nodes):
        edges = kind.edges_into(node)
        kept = edges if kind.keep is None else sorted(generator.permutation(edges)[: kind.keep].tolist())
        nodes.append(tuple(Gene(orders[edge][index], kind.edges[edge].source) for edge in kept))
    return tuple(nodes)


def log_chances(
    space: Space, alphas: Sequence[Tensor], prices: Sequence[Tensor], scale: Scale, networks: Sequence[Genotype]
) -> Tensor:
    """log p_α(z) of each network, given which edges it keeps."""
    tables = [
        passing_logits(kind, edge_logits(alpha, price, scale)).log_softmax(-1)
        for kind, alpha, price in zip(space.kinds, alphas, prices, strict=True)
    ]

    def log_chance(network: Genotype) -> Tensor:
        terms = [
            table[kept.edge, kind.operations.index(kept.operation)]
            for kind, table in zip(space.kinds, tables, strict=True)
            for kept in network.kept(kind)
        ]
        return torch.stack(terms).sum()

    return torch.stack([log_chance(network) for network in networks])


def expected_loss(losses: Tensor, log_chances: Tensor) -> Tensor:
    """The mean loss of a group of networks, with the gradient of the expectation in what `log_chances` depends on."""
    mean = losses.mean()
    moved = log_chances - log_chances.detach()  # 0, with the gradient of log p
    return mean + ((losses - mean) * moved).mean()
