"""The structure of a network as numbers: how often each operation occurs, how deep its cells are, what is chosen."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pipeline.budget.integer_programme import Scores
from pipeline.space.cells import CellKind, Space
from pipeline.space.choices import Choices, choices_of, effective_choices
from pipeline.space.genotype import Genotype
from pipeline.space.spaces import space_named

Array = NDArray[np.float64]
_RIDGE = 3.0
_PASSES_ON = ("skip_connect", "skip")


def effective(genotype: Genotype) -> Choices:
    """The choices that have an effect at the output of their cell."""
    space = space_named(genotype.space)
    return effective_choices(space, choices_of(space, genotype))


def overlap(one: Choices, other: Choices) -> float:
    """The share of choices that two networks have in common (Jaccard), from 0 to 1."""
    both = len(one | other)
    return len(one & other) / both if both else 1.0


def counts_and_depths(genotype: Genotype) -> Array:
    """How often each operation has an effect, over the network and in each kind of cell, and the longest paths."""
    space, choices = space_named(genotype.space), effective(genotype)
    names = list(dict.fromkeys(operation for kind in space.kinds for operation in kind.choosable))
    figures = _count([choice.operation for choice in choices], names)
    for kind in space.kinds:
        kept = {choice.edge: choice.operation for choice in choices if choice.kind == kind.name}
        figures += [*_count(list(kept.values()), kind.choosable), float(longest_path(kind, kept))]
    return np.array(figures)


def _count(found: Sequence[str], names: Sequence[str]) -> list[float]:
    return [float(found.count(name)) for name in names]


def longest_path(kind: CellKind, kept: Mapping[int, str]) -> int:
    """The largest number of operations that compute something on one way through the cell."""
    depth = [0] * (kind.inputs + kind.nodes)
    for edge in sorted(kept):
        node, source = kind.inputs + kind.edges[edge].node, kind.edges[edge].source
        if kept[edge] != "none":
            depth[node] = max(depth[node], depth[source] + (kept[edge] not in _PASSES_ON))
    return max(depth)


def additive_scores(space: Space, genotypes: Sequence[Genotype], values: Sequence[float] | Array) -> Scores:
    """Scores whose sums over a network's choices come nearest to the values, in units of the values' spread (ridge).

    A choice that never occurs gets 0.
    """
    chosen = np.array([one_hot(space, genotype) for genotype in genotypes])
    y = np.asarray(values, np.float64)
    y = (y - y.mean()) / (y.std() or 1.0)
    centred = chosen - chosen.mean(axis=0)
    score = np.linalg.solve(centred.T @ centred + _RIDGE * np.eye(chosen.shape[1]), centred.T @ y)
    offsets = np.cumsum([0, *(len(kind.edges) * len(kind.operations) for kind in space.kinds)])
    return {
        kind.name: score[start:][: len(kind.edges) * len(kind.operations)].reshape(len(kind.edges), -1)
        for kind, start in zip(space.kinds, offsets, strict=False)
    }


def one_hot(space: Space, genotype: Genotype) -> Array:
    """Which operation is kept on which edge, kind by kind: 1 where it is."""
    parts = []
    for kind in space.kinds:
        chosen = np.zeros((len(kind.edges), len(kind.operations)))
        for kept in genotype.kept(kind):
            chosen[kept.edge, kind.operations.index(kept.operation)] = 1.0
        parts.append(chosen.ravel())
    return np.concatenate(parts)
