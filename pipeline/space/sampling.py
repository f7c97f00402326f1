"""Random genotypes: of one kind each, and spread evenly from the cheapest to the costliest."""

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from pipeline.space.cells import CellKind, Gene
from pipeline.space.costs import Costs
from pipeline.space.genotype import Genotype
from pipeline.space.spaces import space_named

_CANDIDATES_PER_PICK = 30
# Below 1, a network has favourite operations: all pooling, all 5×5 …, which uniform draws never show.
_CONCENTRATION = 0.5


def random_genotype(space_name: str, generator: np.random.Generator, concentration: float | None = None) -> Genotype:
    """A network of the space: inputs uniform; operations uniform, or from a Dirichlet draw per kind of cell.

    Kinds with a single edge have one draw in common: a favourite shows in many layers or nowhere.
    """
    space = space_named(space_name)
    single = [kind for kind in space.kinds if len(kind.edges) == 1]
    names = list(dict.fromkeys(operation for kind in single for operation in kind.choosable))
    common = dict(zip(names, _draw_chances(len(names), generator, concentration), strict=True))
    genes = {}
    for kind in space.kinds:
        if kind in single:
            chances = np.array([common[operation] for operation in kind.choosable])
        else:
            chances = _draw_chances(len(kind.choosable), generator, concentration)
        genes[kind.name] = _random_nodes(kind, chances / chances.sum(), generator)
    return Genotype(space_name, genes)


def _draw_chances(count: int, generator: np.random.Generator, concentration: float | None) -> NDArray[np.float64]:
    """Chances of so many operations, each above zero."""
    if not count or concentration is None:
        return np.ones(count)
    return generator.dirichlet([concentration] * count) + np.finfo(np.float64).tiny


def _random_nodes(
    kind: CellKind, chances: NDArray[np.float64], generator: np.random.Generator
) -> tuple[tuple[Gene, ...], ...]:
    def draw_node(node: int) -> tuple[Gene, ...]:
        before = kind.inputs + node
        sources = range(before) if kind.keep is None else sorted(generator.permutation(before)[: kind.keep].tolist())
        return tuple(Gene(str(generator.choice(kind.choosable, p=chances)), source) for source in sources)

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
