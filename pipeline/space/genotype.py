"""Genotypes: the operation on every kept edge, checked against their space, from and to parsed JSON."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from pipeline.errors import UserError
from pipeline.space.cells import CellKind, Gene, Genes, Space
from pipeline.space.spaces import space_named


class KeptEdge(NamedTuple):
    """A kept edge of a kind of cell, by its index, and its operation."""

    edge: int
    operation: str


@dataclass(frozen=True)
class Genotype:
    """One network of a space: for each kind of cell and node, the inputs it keeps. Valid by construction."""

    space: str
    genes: Genes

    def __post_init__(self) -> None:
        space = space_named(self.space)
        if set(self.genes) != {kind.name for kind in space.kinds}:
            raise UserError(f"a {space.name} genotype has the cells {[kind.name for kind in space.kinds]}")
        for kind in space.kinds:
            _check_kind(kind, self.genes[kind.name])

    def kept(self, kind: CellKind) -> Iterator[KeptEdge]:
        """The kept edges of a kind, in the order of its edges."""
        found = [
            KeptEdge(kind.edge_index(node, gene.source), gene.operation)
            for node, genes in enumerate(self.genes[kind.name])
            for gene in genes
        ]
        return iter(sorted(found))

    def record(self) -> dict[str, Any]:
        """The genotype as its file holds it."""
        return {"space": self.space, **space_named(self.space).encode(self.genes)}

    def canonical(self) -> "Genotype":
        """The same network with every node's inputs in order of their source, arranged as its space does."""
        ordered = {k: tuple(tuple(sorted(node, key=lambda g: g.source)) for node in v) for k, v in self.genes.items()}
        return Genotype(self.space, space_named(self.space).arrange(ordered))


def _check_kind(kind: CellKind, nodes: tuple[tuple[Gene, ...], ...]) -> None:
    if len(nodes) != kind.nodes:
        raise UserError(f"cell {kind.name!r} has {len(nodes)} nodes instead of {kind.nodes}")
    for index, node in enumerate(nodes):
        before = kind.inputs + index
        expected = before if kind.keep is None else kind.keep
        if len(node) != expected or len({gene.source for gene in node}) != expected:
            raise UserError(f"node {index} of cell {kind.name!r} must keep {expected} different inputs")
        for gene in node:
            if gene.operation not in kind.choosable:
                raise UserError(
                    f"cell {kind.name!r} has the operation {gene.operation!r}; allowed are {', '.join(kind.choosable)}"
                )
            if type(gene.source) is not int or not 0 <= gene.source < before:
                raise UserError(
                    f"node {index} of cell {kind.name!r} reads {gene.source!r}, but only 0…{before - 1} come before it"
                )


def genotype_from_record(record: Any, origin: str = "the genotype") -> Genotype:
    """The genotype in parsed JSON; anything else is refused with one sentence that names `origin`."""
    if not isinstance(record, dict) or not isinstance(record.get("space"), str):
        raise UserError(f'{origin} is not a genotype: expected an object with "space" and its cells')
    space: Space = space_named(record["space"])
    try:
        return Genotype(space.name, space.decode(record))
    except UserError as error:
        raise UserError(f"{origin}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f"the cell {error} is missing" if isinstance(error, KeyError) else str(error)
        raise UserError(f"{origin} is not a {space.name} genotype: {reason}") from None
