"""Synaptic flow against a derivative by scaling, and scores that explain values by their choices."""

import math

import numpy as np
import pytest
import torch

from pipeline.selection.flow import blend, explain, flow_scores, log_flow
from pipeline.space.genotype import genotype_from_record
from pipeline.space.network import Network
from pipeline.space.sampling import random_genotype
from pipeline.space.skeleton import Skeleton
from pipeline.space.spaces import space_named

SKELETON = Skeleton("nasbench201", cells=3, channels=4, resolution=8, classes=3, in_channels=1)
SPACE = space_named("nasbench201")
CELL = "|nor_conv_3x3~0|+|skip_connect~0|nor_conv_1x1~1|+|avg_pool_3x3~0|none~1|nor_conv_3x3~2|"
DEAD = "|none~0|+|nor_conv_3x3~0|none~1|+|none~0|nor_conv_3x3~1|none~2|"


def cell(text: str):  # type: ignore[no-untyped-def]
    return genotype_from_record({"space": "nasbench201", "cell": text})


def test_flow_is_what_scaling_the_weights_does_to_the_output() -> None:
    """The output is linear in every tensor of weights, so Σ θ · ∂f/∂θ over a tensor is f(2θ) − f(θ)."""
    torch.manual_seed(0)
    network = Network(SKELETON, cell(CELL)).double().eval()
    ones = torch.ones(1, 1, 8, 8, dtype=torch.float64)
    with torch.no_grad():
        for weight in network.parameters():
            weight.abs_()
        before = float(network(ones).sum())
        total = 0.0
        for weight in (parameter for parameter in network.parameters() if parameter.ndim > 1):
            weight.mul_(2.0)
            total += float(network(ones).sum()) - before
            weight.div_(2.0)
    assert log_flow(SKELETON, cell(CELL), seed=0) == pytest.approx(math.log(total), abs=1e-10)


def test_a_network_that_ignores_its_input_has_no_flow() -> None:
    assert log_flow(SKELETON, cell(DEAD)) == -math.inf


def test_the_random_state_is_left_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    log_flow(SKELETON, cell(CELL))
    assert torch.rand(1) == expected


@pytest.mark.parametrize("name", ["nasbench201", "darts"])
def test_sums_of_choices_are_found_again(name: str) -> None:
    space, generator = space_named(name), np.random.default_rng(0)
    truth = {kind.name: generator.normal(size=(len(kind.edges), len(kind.operations))) for kind in space.kinds}

    def total(genotype, scores) -> float:  # type: ignore[no-untyped-def]
        return sum(
            float(scores[kind.name][kept.edge, kind.operations.index(kept.operation)])
            for kind in space.kinds
            for kept in genotype.kept(kind)
        )

    seen = [random_genotype(name, generator) for _ in range(1500)]
    found = explain(space, seen, [total(genotype, truth) for genotype in seen])
    new = [random_genotype(name, generator) for _ in range(100)]
    pairs = np.array([[total(genotype, truth), total(genotype, found)] for genotype in new])
    assert np.corrcoef(pairs.T)[0, 1] > 0.99


def test_values_that_are_not_finite_are_left_out() -> None:
    generator = np.random.default_rng(0)
    seen = [random_genotype("nasbench201", generator) for _ in range(50)]
    values = list(generator.normal(size=50))
    with_dead = explain(SPACE, [*seen, cell(DEAD)], [*values, -math.inf])
    np.testing.assert_array_equal(with_dead["cell"], explain(SPACE, seen, values)["cell"])


def test_convolutions_pass_more_than_nothing() -> None:
    scores = flow_scores(SPACE, SKELETON, samples=60, seed=0)["cell"]
    names = SPACE.kinds[0].operations
    assert (scores[:, names.index("nor_conv_3x3")] > scores[:, names.index("none")]).all()


def test_blending_keeps_the_order_of_either_end_and_what_is_banned() -> None:
    generator = np.random.default_rng(0)
    ours, theirs = ({"normal": generator.normal(size=(3, 4))} for _ in range(2))
    ours["normal"][:, 0] = -np.inf
    for share, alone in ((0.0, ours), (1.0, theirs)):
        mixed = blend(ours, theirs, share)["normal"]
        assert np.isneginf(mixed[:, 0]).all()
        np.testing.assert_array_equal(mixed[:, 1:].argsort(axis=1), alone["normal"][:, 1:].argsort(axis=1))
    doubled = {"normal": 2 * theirs["normal"]}
    np.testing.assert_allclose(blend(ours, theirs, 0.5)["normal"], blend(ours, doubled, 0.5)["normal"])
