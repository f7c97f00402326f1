import numpy as np
import pytest

from pipeline.space.costs import mac_costs
from pipeline.space.plan import count_macs
from pipeline.space.sampling import random_genotype, spread_genotypes
from pipeline.space.skeleton import Skeleton

DARTS = Skeleton("darts", cells=3, channels=4, resolution=8, classes=3)
NASBENCH = Skeleton("nasbench201", cells=3, channels=4, resolution=8, classes=3)
MOBILE = Skeleton("mobile", cells=22, channels=8, resolution=32, classes=3)


@pytest.mark.parametrize("skeleton", [DARTS, NASBENCH, MOBILE])
def test_spread_from_the_cheapest_to_the_costliest(skeleton: Skeleton) -> None:
    found = spread_genotypes(skeleton.space, mac_costs(skeleton), 12, seed=1)
    macs = np.sort([count_macs(skeleton, genotype) for genotype in found])
    generator = np.random.default_rng(0)
    plain = [count_macs(skeleton, random_genotype(skeleton.space, generator)) for _ in range(12)]
    assert macs[-1] - macs[0] > max(plain) - min(plain)
    gaps = np.diff(macs) / (macs[-1] - macs[0])
    assert gaps.max() < 0.35
    assert len({str(genotype.record()) for genotype in found}) == 12


def test_the_same_seed_draws_the_same_networks_and_no_others() -> None:
    costs = mac_costs(DARTS)
    first = spread_genotypes("darts", costs, 6, seed=1)
    assert first == spread_genotypes("darts", costs, 6, seed=1)
    assert first != spread_genotypes("darts", costs, 6, seed=2)


def test_networks_apart_from_others_share_none_with_them() -> None:
    costs = mac_costs(NASBENCH)
    first = spread_genotypes("nasbench201", costs, 30, seed=1)
    again = spread_genotypes("nasbench201", costs, 30, seed=1, apart_from=first)
    assert not {str(g.record()) for g in first} & {str(g.record()) for g in again}


def test_random_operations_and_inputs_are_uniform() -> None:
    generator = np.random.default_rng(0)
    drawn = [random_genotype("darts", generator) for _ in range(400)]
    operations = [gene.operation for genotype in drawn for node in genotype.genes["normal"] for gene in node]
    counts = np.unique(operations, return_counts=True)[1]
    assert len(counts) == 7 and counts.min() > 0.8 * counts.max()
    sources = np.unique(
        [gene.source for genotype in drawn for gene in genotype.genes["normal"][3]], return_counts=True
    )[1]
    assert len(sources) == 5 and sources.min() > 0.7 * sources.max()
