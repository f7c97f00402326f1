"""The sites that a runtime executes: it computes the same thing once (common subexpressions).

Operations without weights that read the same value give the same value, and nodes that sum the same values are the
same node. DARTS cells with many pools hold several of them; a slow pool counted twice is a large error. Linear costs
count every choice, so they are never below what is executed; without what may be merged, they are never above it.
"""

from collections.abc import Hashable, Iterator

import numpy as np

from pipeline.space import operations
from pipeline.space.cells import Cell, CellKind
from pipeline.space.costs import Costs, param_costs
from pipeline.space.genotype import Genotype
from pipeline.space.layers import Normalization
from pipeline.space.plan import fixed_sites, network_sites, plan_of
from pipeline.space.sites import Site
from pipeline.space.skeleton import Skeleton
from pipeline.space.spaces import space_named


def executed_sites(skeleton: Skeleton, genotype: Genotype, merged: bool) -> list[Site]:
    """The sites of a network; with `merged`, those that compute what another one has computed are left out."""
    if not merged:
        return network_sites(skeleton, genotype)
    plan, space = plan_of(skeleton), space_named(skeleton.space)
    sites = list(fixed_sites(plan, space))
    for cell in plan.cells:
        sites += _executed_in_cell(cell, space.kind(cell.kind), genotype)
    return sites


def _executed_in_cell(cell: Cell, kind: CellKind, genotype: Genotype) -> Iterator[Site]:
    """Number the values: equal operations without weights on equal values have the same number."""
    values: list[Hashable] = [("input", index) for index in range(kind.inputs)]
    known: set[Hashable] = set()
    kept = list(genotype.kept(kind))
    for node in range(kind.nodes):
        terms: list[Hashable] = []
        for choice in kept:
            edge = kind.edges[choice.edge]
            if edge.node != node:
                continue
            site = cell.site(kind, edge, choice.operation)
            own = None if operations.params(site, Normalization()) == 0 else choice.edge  # weights make it unique
            term = (choice.operation, values[edge.source], own)
            if term not in known:
                known.add(term)
                yield site
            terms.append(term)
        values.append(("sum", *terms))


def unmerged_costs(skeleton: Skeleton, costs: Costs) -> Costs:
    """The costs of what every runtime executes: operations with weights, and all into the first node of a cell.

    What the first node sums reads different values, so that nothing there is equal.
    """
    params, choices = param_costs(skeleton).choices, {}
    for kind in space_named(skeleton.space).kinds:
        later = np.array([edge.node > 0 for edge in kind.edges])[:, None]
        choices[kind.name] = np.where(later & (params[kind.name] == 0), 0.0, costs.choices[kind.name])
    return costs._replace(choices=choices)
