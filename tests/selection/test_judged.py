"""What a search saw of single networks, as a source."""

import numpy as np
import pytest
from scipy.stats import kendalltau

from pipeline.artifacts.judged_networks import JudgedNetworks
from pipeline.search.expectation import draw_fair_group
from pipeline.selection.judged import measure_judged
from pipeline.space.genotype import Genotype
from pipeline.space.sampling import random_genotype
from pipeline.space.spaces import space_named

DARTS = space_named("darts")


def planted_loss(network: Genotype) -> float:
    """Convolutions help, and so do inputs from outside the cell: what α's log-odds among operations cannot see."""
    genes = [gene for cell in network.genes.values() for node in cell for gene in node]
    return -sum("conv" in gene.operation for gene in genes) - 0.7 * sum(gene.source < 2 for gene in genes)


def judge(groups: int, noise: float) -> JudgedNetworks:
    random = np.random.default_rng(0)
    drawn = [draw_fair_group(DARTS, (7, number)) for number in range(groups)]
    # every group has weights and images of its own, so a level of its own
    losses = [[planted_loss(n) + 50 * g + noise * random.normal() for n in group] for g, group in enumerate(drawn)]
    return JudgedNetworks(DARTS, drawn, losses)


@pytest.mark.parametrize(("noise", "least"), [(0.0, 0.9), (2.0, 0.7)])
def test_operations_and_wiring_are_learned(noise: float, least: float) -> None:
    measure = measure_judged(judge(150, noise))
    assert measure is not None and measure.names == ("supernet",)
    random = np.random.default_rng(1)
    networks = [random_genotype("darts", random) for _ in range(60)]
    found = kendalltau([measure.of(n)[0] for n in networks], [-planted_loss(n) for n in networks]).statistic
    assert found > least


def test_noise_teaches_nothing() -> None:
    judged = judge(150, 0.0)
    shuffled = np.random.default_rng(3).permuted(np.array(judged.losses), axis=1)  # within every group
    measure = measure_judged(JudgedNetworks(DARTS, judged.groups, shuffled.tolist()))
    assert measure is not None
    random = np.random.default_rng(1)
    networks = [random_genotype("darts", random) for _ in range(60)]
    found = kendalltau([measure.of(n)[0] for n in networks], [-planted_loss(n) for n in networks]).statistic
    assert abs(found) < 0.4


def test_too_few_looks_are_no_source() -> None:
    assert measure_judged(judge(3, 0.0)) is None
    assert measure_judged(JudgedNetworks(DARTS, [], [])) is None
