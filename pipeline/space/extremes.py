"""The cheapest and the costliest network of a space: the two ends between which every budget lies.

A cost that is linear in the choices falls apart into nodes, so both ends are exact: on every edge the extreme
operation, in every node the extreme `keep` edges.
"""

import numpy as np
from numpy.typing import NDArray

from pipeline.space.cells import CellKind, Gene, Space
from pipeline.space.costs import Costs
from pipeline.space.genotype import Genotype


def cheapest_genotype(space: Space, costs: Costs) -> Genotype:
    """The genotype with the smallest cost; among equals, the first operations and inputs."""
    return Genotype(space.name, {kind.name: _cheapest_nodes(kind, costs.choices[kind.name]) for kind in space.kinds})


def costliest_genotype(space: Space, costs: Costs) -> Genotype:
    """The genotype with the largest cost; among equals, the first operations and inputs."""
    return cheapest_genotype(space, Costs(-costs.fixed, {name: -cost for name, cost in costs.choices.items()}))


def _cheapest_nodes(kind: CellKind, cost: NDArray[np.float64]) -> tuple[tuple[Gene, ...], ...]:
    banned = [operation not in kind.choosable for operation in kind.operations]
    allowed = np.where(banned, np.inf, cost)
    operation, lowest = allowed.argmin(axis=1), allowed.min(axis=1)
    nodes = []
    for node in range(kind.nodes):
        incoming = sorted(kind.edges_into(node), key=lambda edge: float(lowest[edge]))
        kept = sorted(incoming[: kind.keep])
        nodes.append(tuple(Gene(kind.operations[operation[edge]], kind.edges[edge].source) for edge in kept))
    return tuple(nodes)
