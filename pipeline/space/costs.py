"""Costs: a resource of a network (milliseconds, multiply-adds, parameters) that is linear in the choices."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.space import operations
from pipeline.space.genotype import Genotype
from pipeline.space.layers import Normalization
from pipeline.space.plan import Choice, choice_sites, fixed_sites, plan_of
from pipeline.space.sites import Site
from pipeline.space.skeleton import Skeleton
from pipeline.space.spaces import space_named


class Costs(NamedTuple):
    """fixed + the sum of `choices[kind][edge, operation]` over the kept edges of a genotype.

    The cost of a choice is summed over all cells of its kind: choosing once is paying in every cell.
    """

    fixed: float
    choices: dict[str, NDArray[np.float64]]

    def of(self, genotype: Genotype) -> float:
        """The cost of one network."""
        space = space_named(genotype.space)
        return self.fixed + sum(
            float(self.choices[kind.name][kept.edge, kind.operations.index(kept.operation)])
            for kind in space.kinds
            for kept in genotype.kept(kind)
        )


def site_costs(skeleton: Skeleton, price: Callable[[Site], float]) -> Costs:
    """The costs of the skeleton's networks when every site has a price of its own."""
    plan, space = plan_of(skeleton), space_named(skeleton.space)
    sites = choice_sites(plan, space)
    choices = {
        kind.name: np.array(
            [
                [
                    sum(price(site) for site in sites[Choice(kind.name, edge, operation)])
                    for operation in kind.operations
                ]
                for edge in range(len(kind.edges))
            ],
            dtype=np.float64,
        )
        for kind in space.kinds
    }
    return Costs(float(sum(price(site) for site in fixed_sites(plan, space))), choices)


def mac_costs(skeleton: Skeleton) -> Costs:
    """Multiply-adds of convolutions and linear layers."""
    return site_costs(skeleton, operations.macs)


def param_costs(skeleton: Skeleton) -> Costs:
    """Learnable parameters of the deployed network."""
    return site_costs(skeleton, lambda site: operations.params(site, Normalization()))
