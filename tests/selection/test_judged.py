"""What a search saw of single networks, as a source."""

import math

import numpy as np
import pytest
from scipy.stats import kendalltau

from pipeline.artifacts.judged_networks import JudgedNetworks
from pipeline.search.expectation import draw_fair_group
from pipeline.selection.judged import LossPredictor, measure_judged
from pipeline.space.choices import without_idle
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
    losses = [
        [math.exp((planted_loss(n) - g + noise * random.normal()) / 50) for n in group] for g, group in enumerate(drawn)
    ]
    return JudgedNetworks(DARTS, drawn, losses)


@pytest.mark.parametrize(("noise", "least"), [(0.0, 0.8), (2.0, 0.7)])
def test_operations_and_wiring_are_learned(noise: float, least: float) -> None:
    measure = measure_judged(judge(150, noise))
    assert measure is not None and measure.names == ("supernet",)
    random = np.random.default_rng(1)
    networks = [random_genotype("darts", random) for _ in range(60)]
    found = kendalltau([measure.of(n)[0] for n in networks], [-planted_loss(n) for n in networks]).statistic
    assert found > least


def test_what_no_sum_shows_is_learned_too() -> None:
    """Two convolutions are as good as six, and fewer are bad: nearer to that than the best sum over choices."""
    space = space_named("nasbench201")

    def ln_loss(network: Genotype) -> float:
        heard = without_idle(space, network).kept(space.kinds[0])
        return float(sum("conv" in kept.operation for kept in heard) < 2)

    random, drawn = np.random.default_rng(4), [draw_fair_group(space, (8, number)) for number in range(500)]
    noisy = [[math.exp(ln_loss(n) + 0.3 * random.normal()) for n in group] for group in drawn]
    predictor = LossPredictor(JudgedNetworks(space, drawn, noisy))
    unseen = [network for number in range(60) for network in draw_fair_group(space, (9, number))]
    truth = np.array([ln_loss(network) for network in unseen])
    found = np.array([predictor.loss(network) for network in unseen])
    described = np.array([predictor._describe(network) for network in unseen])
    by_sum = np.array(predictor.model.named_estimators_["ridge"].predict(described))
    errors = [float((truth - predicted).var()) for predicted in (found, by_sum)]
    assert errors[0] < 0.6 * errors[1] and errors[0] < 0.5 * truth.var()


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
