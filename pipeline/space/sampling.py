"""Random genotypes: of one kind each, and spread evenly from the cheapest to the costliest."""

from collections.abc import Collection

import numpy as np

from pipeline.space.cells import CellKind, Gene
from pipeline.space.costs import Costs
from pipeline.space.genotype import Genotype
from pipeline.space.spaces import space_named

_CANDIDATES_PER_PICK = 30
# Below 1, a network has favourite operations: all pooling, all 5×5 …, which uniform draws never show.
_CONCENTRATION = 0.5


def random_genotype(space_name: str, generator: np.random.Generator, concentration: float | None = None) -> Genotype:
    """A network of the space: inputs uniform; operations uniform, or from a Dirichlet draw per kind of cell."""
    space = space_named(space_name)
    return Genotype(space_name, {kind.name: _random_kind(kind, generator, concentration) for kind in space.kinds})


def _random_kind(
    kind: CellKind, generator: np.random.Generator, concentration: float | None
) -> tuple[tuple[Gene, ...], ...]:
    count = len(kind.choosable)
    chances = np.full(count, 1 / count) if concentration is None else generator.dirichlet([concentration] * count)

    def draw_node(node: int) -> tuple[Gene, ...]:
        before = kind.inputs + node
        sources = range(before) if kind.keep is None else sorted(generator.permutation(before)[: kind.keep].tolist())
        return tuple(Gene(kind.choosable[generator.choice(count, p=chances)], source) for source in sources)

    return tuple(draw_node(node) for node in range(kind.nodes))


def spread_genotypes(
    space_name: str, costs: Costs, count: int, seed: int, apart_from: Collection[Genotype] = ()
) -> list[Genotype]:
    """`count` different random networks, evenly spread over the range of `costs`, none of `apart_from`.

    The range of the candidates is cut into `count` strata of equal width; the candidate nearest to a random point of
    each is taken.
    """
    generator = np.random.default_rng(seed)
    taken = [genotype.record() for genotype in apart_from]
    pool = [random_genotype(space_name, generator, _CONCENTRATION) for _ in range(_CANDIDATES_PER_PICK * (count + 1))]
    pool = [genotype for genotype in pool if genotype.record() not in taken]
    prices = np.array([costs.of(genotype) for genotype in pool])
    edges = np.linspace(prices.min(), prices.max(), count + 1)
    picked: list[Genotype] = []
    for point in generator.uniform(edges[:-1], edges[1:]):
        index = int(np.argmin(np.abs(prices - point)))
        picked.append(pool[index])
        prices[[genotype.record() == pool[index].record() for genotype in pool]] = np.inf
    return picked
