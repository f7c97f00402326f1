"""Every network of a small space, one by one: the oracle beside the integer programme."""

from collections.abc import Iterator
from itertools import combinations, product

import numpy as np

from pipeline.space.cells import CellKind, Space
from pipeline.space.costs import Costs
from pipeline.space.plan import Choice

Network = tuple[tuple[str, int, str], ...]


class Table:
    """All networks and, in the same order, the sum of any [edges, operations] values over their choices."""

    def __init__(self, space: Space) -> None:
        kinds = [list(_all_cells(kind)) for kind in space.kinds]
        self.networks: list[Network] = [tuple(c for cell in cells for c in cell) for cells in product(*kinds)]
        self._places = [
            (kind.name, edge, i, operation)
            for kind in space.kinds
            for edge in range(len(kind.edges))
            for i, operation in enumerate(kind.operations)
        ]
        number = {(kind, edge, operation): n for n, (kind, edge, _, operation) in enumerate(self._places)}
        self._numbers = np.array([[number[choice] for choice in network] for network in self.networks])
        self._known = {frozenset(network) for network in self.networks}

    def __contains__(self, choices: frozenset[Choice]) -> bool:
        return frozenset(tuple(c) for c in choices) in self._known

    def sums(self, values: dict[str, np.ndarray]) -> np.ndarray:
        flat = np.array([values[kind][edge, i] for kind, edge, i, _ in self._places])
        total: np.ndarray = flat[self._numbers].sum(axis=1)
        return total

    def costs(self, costs: Costs) -> np.ndarray:
        return costs.fixed + self.sums(costs.choices)


def _all_cells(kind: CellKind) -> Iterator[tuple[tuple[str, int, str], ...]]:
    operations = [o for o in kind.operations if kind.none_is_choice or o != "none"]
    nodes = []
    first = 0
    for node in range(kind.nodes):
        edges = range(first, first + kind.inputs + node)
        first += kind.inputs + node
        keep = len(edges) if kind.keep is None else kind.keep
        nodes.append(
            [
                tuple((kind.name, edge, operation) for edge, operation in zip(kept, chosen, strict=True))
                for kept in combinations(edges, keep)
                for chosen in product(operations, repeat=keep)
            ]
        )
    for cell in product(*nodes):
        flat = tuple(c for node in cell for c in node)
        if not kind.none_is_choice or _is_heard(kind, {edge for _, edge, operation in flat if operation != "none"}):
            yield flat


def _is_heard(kind: CellKind, open_edges: set[int]) -> bool:
    """Whether there are open edges, and all lie on paths of open edges from an input to the last node."""
    last = kind.inputs + kind.nodes - 1
    steps = {i: (edge.source, kind.inputs + edge.node) for i, edge in enumerate(kind.edges) if i in open_edges}

    def leads(state: int, end: int) -> bool:
        return state == end or any(leads(after, end) for before, after in steps.values() if before == state)

    return bool(steps) and all(
        any(leads(given, source) for given in range(kind.inputs)) and leads(node, last)
        for source, node in steps.values()
    )
