"""What a search saw of single networks, as a source."""

import numpy as np
import pytest
from scipy.stats import kendalltau

from pipeline.artifacts.judged_networks import JudgedNetworks
from pipeline.search.expectation import draw_fair_group
from pipeline.selection.judged import LossPredictor, measure_judged
from pipeline.space.genotype import Genotype, genotype_from_record
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


def test_the_regression_is_the_one_that_suits_what_was_seen() -> None:
    """Sums over choices, or: three convolutions are as good as six, and fewer are bad."""
    assert "RidgeCV" in str(LossPredictor(judge(40, 1.0)).model)
    space = space_named("nasbench201")

    def convolutions(network: Genotype) -> int:
        return sum("conv" in kept.operation for kept in network.kept(space.kinds[0]))

    def judge_by_threshold(groups: int) -> JudgedNetworks:
        random, drawn = np.random.default_rng(4), [draw_fair_group(space, (8, number)) for number in range(groups)]
        losses = [[float(convolutions(n) < 3) + 0.3 * random.normal() for n in group] for group in drawn]
        return JudgedNetworks(space, drawn, losses)

    seen = LossPredictor(judge_by_threshold(500))
    assert "Boosting" in str(seen.model)

    def cell(operation: str) -> float:
        arrows = "+".join("|" + "|".join(f"{operation}~{i}" for i in range(n)) + "|" for n in (1, 2, 3))
        return seen.loss(genotype_from_record({"space": "nasbench201", "cell": arrows}))

    assert abs(cell("nor_conv_3x3") - cell("nor_conv_1x1")) < 0.2
    assert cell("skip_connect") - cell("nor_conv_3x3") > 0.6 and cell("avg_pool_3x3") - cell("nor_conv_3x3") > 0.6


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
