"""Sets of choices: what the integer programme speaks of, their costs, and the genotypes they make."""

from collections.abc import Iterable

from pipeline.space.cells import CellKind, Gene, Space
from pipeline.space.costs import Costs
from pipeline.space.genotype import Genotype
from pipeline.space.plan import Choice

Choices = frozenset[Choice]


def choices_cost(space: Space, costs: Costs, choices: Iterable[Choice]) -> float:
    """`Costs.of` for choices, which need not be of a registered space."""
    operations = {kind.name: kind.operations for kind in space.kinds}
    return costs.fixed + sum(
        float(costs.choices[c.kind][c.edge, operations[c.kind].index(c.operation)]) for c in sorted(choices)
    )


def genotype_of(space: Space, choices: Choices) -> Genotype:
    """The genotype that the choices make."""
    genes = {}
    for kind in space.kinds:
        kept = sorted((c.edge, c.operation) for c in choices if c.kind == kind.name)
        genes[kind.name] = tuple(
            tuple(Gene(operation, kind.edges[edge].source) for edge, operation in kept if kind.edges[edge].node == node)
            for node in range(kind.nodes)
        )
    return Genotype(space.name, genes)


def choices_of(space: Space, genotype: Genotype) -> Choices:
    """The choices that make a genotype."""
    return frozenset(
        Choice(kind.name, kept.edge, kept.operation) for kind in space.kinds for kept in genotype.kept(kind)
    )


def effective_choices(space: Space, choices: Choices) -> Choices:
    """The choices that have an effect at the output of their cell, the network being what it is.

    An edge counts if its source carries a signal and its node is heard, whatever runs on the edge itself. Where `none`
    cannot be chosen every kept edge does.
    """
    effective: set[Choice] = set()
    for kind in space.kinds:
        kept = {c.edge: c.operation for c in choices if c.kind == kind.name}
        alive, heard = _alive_states(kind, kept), _heard_states(kind, kept)
        effective |= {
            Choice(kind.name, edge, operation)
            for edge, operation in kept.items()
            if kind.edges[edge].source in alive and kind.inputs + kind.edges[edge].node in heard
        }
    return frozenset(effective)


def hears_input(space: Space, choices: Choices) -> bool:
    """Whether the output of every cell depends on an input of it: a network that ignores its images is no network."""
    for kind in space.kinds:
        alive = _alive_states(kind, {c.edge: c.operation for c in choices if c.kind == kind.name})
        if alive.isdisjoint(_last_states(kind)):
            return False
    return True


def without_idle(space: Space, genotype: Genotype) -> Genotype:
    """The same network with `none` for every choice that has no effect, in its canonical form."""
    choices = choices_of(space, genotype)
    effective = effective_choices(space, choices)
    heard = frozenset(c if c in effective else c._replace(operation="none") for c in choices)
    return genotype_of(space, heard).canonical()


def _alive_states(kind: CellKind, kept: dict[int, str]) -> set[int]:
    """The inputs and the nodes that depend on them."""
    alive = set(range(kind.inputs))
    for edge in sorted(kept):
        node, source = kind.edges[edge]
        if kept[edge] != "none" and source in alive:
            alive.add(kind.inputs + node)
    return alive


def _heard_states(kind: CellKind, kept: dict[int, str]) -> set[int]:
    """The inputs and nodes that the cell's output depends on."""
    heard = _last_states(kind)
    for edge in sorted(kept, reverse=True):
        node, source = kind.edges[edge]
        if kept[edge] != "none" and kind.inputs + node in heard:
            heard.add(source)
    return heard


def _last_states(kind: CellKind) -> set[int]:
    """The nodes that are the cell's output."""
    last = kind.inputs + kind.nodes
    return {last - 1} if kind.output == "last" else set(range(kind.inputs, last))
