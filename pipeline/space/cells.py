"""What a search space is made of: kinds of cells with their edges, and the plan of a whole network.

A space that chooses one operation per layer is the same thing: each layer a kind of its own with a single edge
(`pipeline.space.layerwise`).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

from pipeline.space.sites import Site
from pipeline.space.skeleton import Skeleton


class Edge(NamedTuple):
    """A place in a cell where one operation is chosen: from `source` (inputs first, then nodes) to `node`."""

    node: int
    source: int


@dataclass(frozen=True)
class CellKind:
    """A cell as a graph: `inputs` inputs, then `nodes` nodes, each with an edge from everything before it.

    `keep` inputs of each node survive the cut (None: all). `none` competes like any other operation when
    `none_is_choice`; otherwise it only weakens an edge during the search. A step of the search runs `paths` operations
    per edge (None: all), see `pipeline.space.paths`. In the supernet `nested` operations are parts of the widest one,
    see `pipeline.space.nested`.
    """

    name: str
    operations: tuple[str, ...]
    inputs: int
    nodes: int
    keep: int | None
    none_is_choice: bool
    output: Literal["concat", "last"]
    paths: int | None = None
    nested: bool = False

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        return tuple(Edge(n, s) for n in range(self.nodes) for s in range(self.inputs + n))

    @cached_property
    def choosable(self) -> tuple[str, ...]:
        """The operations a genotype may hold."""
        return tuple(o for o in self.operations if self.none_is_choice or o != "none")

    def edge_index(self, node: int, source: int) -> int:
        return self.edges.index(Edge(node, source))

    def edges_from(self, source: int) -> tuple[int, ...]:
        """Indices of the edges that start in `source`."""
        return tuple(i for i, edge in enumerate(self.edges) if edge.source == source)

    def edges_into(self, node: int) -> tuple[int, ...]:
        """Indices of the edges that end in `node`."""
        return tuple(i for i, edge in enumerate(self.edges) if edge.node == node)


class Fixed(NamedTuple):
    """A part of the chain that is the same in every network of the space."""

    site: Site


class Cell(NamedTuple):
    """A cell at its place: `resolution` and `channels_in` are those of its preprocessed inputs.

    `stride` applies to edges from them, which also bring the width to `channels`.
    """

    kind: str
    channels_in: int
    channels: int
    stride: int
    resolution: int
    preprocess: tuple[Site, ...]

    def site(self, kind: CellKind, edge: Edge, operation: str) -> Site:
        """Where `operation` runs if it is chosen on `edge` of this cell."""
        if edge.source < kind.inputs:
            return Site(operation, self.channels_in, self.channels, self.stride, self.resolution)
        return Site(operation, self.channels, self.channels, 1, self.resolution // self.stride)

    def output_site(self, kind: CellKind) -> Site | None:
        """The concatenation at the end of the cell, if it has one."""
        if kind.output == "last":
            return None
        return Site("concat", self.channels, self.channels * kind.nodes, 1, self.resolution // self.stride)


class Plan(NamedTuple):
    """A whole network of the space. The auxiliary head (training only) reads the output of part `auxiliary_after`."""

    chain: tuple[Fixed | Cell, ...]
    head: Site
    auxiliary_after: int

    @property
    def cells(self) -> Iterator[Cell]:
        return (part for part in self.chain if isinstance(part, Cell))


Genes = Mapping[str, tuple[tuple["Gene", ...], ...]]


class Gene(NamedTuple):
    """An input a node keeps: the operation on the edge from `source`."""

    operation: str
    source: int


@dataclass(frozen=True)
class Space:
    """A search space: its kinds of cells, how it lays out a network, and how its genotype files are written.

    `decode` takes the parsed JSON of a genotype file and returns genes per kind and node, or raises ValueError,
    KeyError or TypeError; what the genes mean is checked by `pipeline.space.genotype` for all spaces alike.
    `arrange` brings genes that make the same network to the same form. Genotypes are quoted at the size `literature`.
    """

    name: str
    kinds: tuple[CellKind, ...]
    literature: Skeleton
    lay_out: Callable[[Skeleton], Plan]
    encode: Callable[[Genes], dict[str, Any]]
    decode: Callable[[Mapping[str, Any]], Genes]
    arrange: Callable[[Genes], Genes] = lambda genes: genes

    def kind(self, name: str) -> CellKind:
        return next(kind for kind in self.kinds if kind.name == name)
