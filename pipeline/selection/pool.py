"""Networks to consider: unlike each other, and within the limits."""

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from pipeline.budget.integer_programme import Programme
from pipeline.budget.limits import Limit
from pipeline.selection.evolution import neighbours
from pipeline.space.cells import Space
from pipeline.space.choices import Choices, choices_cost, choices_of, genotype_of
from pipeline.space.genotype import Genotype


class Pool(NamedTuple):
    """Networks to judge, and the limits that others to be tried beside them must keep; no limits: no others."""

    space: Space
    networks: tuple[Genotype, ...]
    limits: tuple[Limit, ...] = ()

    def neighbours_of(self, parents: Sequence[Genotype], each: int, seed: int) -> list[Genotype]:
        """Networks one change away from the parents that keep the limits, up to so many of each."""
        generator, found = np.random.default_rng(seed), list[Genotype]()
        for parent in parents if self.limits else ():
            around = list(neighbours(self.space, choices_of(self.space, parent)))
            order = generator.permutation(len(around))
            kept = (around[index] for index in order if self._keeps(around[index]))
            found += [genotype_of(self.space, choices) for choices in islice(kept, each)]
        return found

    def _keeps(self, choices: Choices) -> bool:
        return all(limit.allows(choices_cost(self.space, limit.costs, choices)) for limit in self.limits)


def feasible_networks(space: Space, limits: Sequence[Limit], count: int, seed: int) -> list[Genotype]:
    """Up to `count` different networks within the limits, each the best of the integer programme for random scores.

    So they are found however few networks keep the limits, and make use of what is allowed; none, when none does.
    """
    generator, found = np.random.default_rng(seed), dict[str, Genotype]()
    for _ in range(count):
        shapes = {kind.name: (len(kind.edges), len(kind.operations)) for kind in space.kinds}
        scores = {name: generator.normal(size=shape) for name, shape in shapes.items()}
        solution = Programme(space, scores).best(limits)
        if solution is None:
            break
        genotype = genotype_of(space, solution.choices)
        found.setdefault(str(genotype.record()), genotype)
    return list(found.values())
