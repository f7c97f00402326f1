"""NAS-Bench-201 as files: what every cell reaches, what it takes on a device, and a model of that from few cells."""

import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.tables import Array, FittedDevice
from pipeline.space.choices import choices_of, effective_choices
from pipeline.space.costs import Costs
from pipeline.space.genotype import Genotype, genotype_from_record
from pipeline.space.spaces import space_named

SPACE = space_named("nasbench201")
(KIND,) = SPACE.kinds
# weight of an edge's own time for an operation against the operation's time on all edges, in relative errors
_RIDGE = 0.1
_FOLDS = 10


class Column(NamedTuple):
    """One figure of every cell."""

    name: str
    of: dict[str, float]


def read_column(path: Path, name: str) -> Column:
    """A column of a CSV file with the cells in `arch`."""
    with path.open(newline="") as file:
        rows = csv.DictReader(file)
        if name not in (rows.fieldnames or ()) or "arch" not in (rows.fieldnames or ()):
            raise SystemExit(f"{path} has the columns {rows.fieldnames}; {name!r} or 'arch' is not among them")
        return Column(name, {row["arch"]: float(row[name]) for row in rows})


def numeric_columns(path: Path) -> list[str]:
    """All columns but the cells'."""
    with path.open(newline="") as file:
        return [name for name in csv.DictReader(file).fieldnames or () if name != "arch"]


def name_of(genotype: Genotype) -> str:
    return str(genotype.record()["cell"])


def genotype_named(name: str) -> Genotype:
    return genotype_from_record({"space": SPACE.name, "cell": name})


def all_cells() -> list[Genotype]:
    """All 15,625 cells of the space."""
    from itertools import product

    from pipeline.space.cells import Gene

    cells = []
    for operations in product(KIND.operations, repeat=len(KIND.edges)):
        nodes: list[list[Gene]] = [[] for _ in range(KIND.nodes)]
        for edge, operation in zip(KIND.edges, operations, strict=True):
            nodes[edge.node].append(Gene(operation, edge.source))
        cells.append(Genotype(SPACE.name, {KIND.name: tuple(map(tuple, nodes))}))
    return cells


def _is_felt(cell: Genotype) -> bool:
    choices = choices_of(SPACE, cell)
    return {c for c in choices if c.operation != "none"} <= effective_choices(SPACE, choices)


def fit_device(latency: Column, cells: list[Genotype]) -> FittedDevice:
    """Least squares of relative errors; the times of one operation on different edges are drawn to each other.

    Cells with an operation that cannot be felt are left out: some runtimes drop it, some run it. The stated error is
    that of cells which a fit has not seen.
    """
    cells = [cell for cell in cells if _is_felt(cell)]
    measured = np.array([latency.of[name_of(cell)] for cell in cells])
    costs = _fit_costs(cells, measured)
    misses = []
    for fold in range(_FOLDS):
        held = np.arange(len(cells)) % _FOLDS == fold
        kept = _fit_costs([cell for cell, out in zip(cells, held, strict=True) if not out], measured[~held])
        misses += [abs(kept.of(cells[index]) / measured[index] - 1) for index in np.flatnonzero(held)]
    return FittedDevice(costs, float(np.percentile(misses, 95)))


def _fit_costs(cells: list[Genotype], measured: Array) -> Costs:
    edges, operations = len(KIND.edges), [o for o in KIND.operations if o != "none"]
    width = len(operations)
    chosen = np.zeros((len(cells), edges, width))
    for row, cell in enumerate(cells):
        for kept in cell.kept(KIND):
            if kept.operation != "none":
                chosen[row, kept.edge, operations.index(kept.operation)] = 1.0
    # unknowns: the time of every operation, its deviation on every edge, the fixed part
    features = np.hstack([chosen.sum(axis=1), chosen.reshape(len(cells), -1), np.ones((len(cells), 1))])
    prior = np.sqrt(_RIDGE * len(cells)) / measured.mean() * np.eye(features.shape[1])
    prior[:width] = prior[-1] = 0.0
    target = np.concatenate([np.ones(len(cells)), np.zeros(len(prior))])
    unknown = np.linalg.lstsq(np.vstack([features / measured[:, None], prior]), target)[0]
    times = np.zeros((edges, len(KIND.operations)))
    for index, operation in enumerate(operations):
        own = unknown[width : width + edges * width].reshape(edges, width)[:, index]
        times[:, KIND.operations.index(operation)] = np.maximum(unknown[index] + own, 0.0)
    return Costs(float(unknown[-1]), {KIND.name: times})
