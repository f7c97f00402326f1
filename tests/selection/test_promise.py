"""What untrained networks promise, and scores that explain values by their choices."""

import math

import numpy as np
import pytest
import torch

from pipeline.selection.flow import log_flow
from pipeline.selection.patterns import log_distinctness
from pipeline.selection.promise import Untrained, add_promise, explain
from pipeline.space.sampling import random_genotype
from pipeline.space.spaces import space_named
from tests.selection.test_flow import CELL, DEAD, SKELETON, cell

SPACE = space_named("nasbench201")
IMAGES = torch.rand(6, 1, 8, 8, generator=torch.Generator().manual_seed(0))
WIDE = "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_3x3~2|"


def test_distinctness_counts_agreeing_relus_one_by_one() -> None:
    """The kernel by its definition, from the patterns of a network that is built and run here."""
    from pipeline.space.network import Network

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = Network(SKELETON, cell(CELL)).train()
    signs: list[torch.Tensor] = []
    for module in network.modules():
        if isinstance(module, torch.nn.ReLU):
            module.register_forward_pre_hook(lambda _, inputs: signs.append(inputs[0].flatten(1) > 0))
    with torch.no_grad():
        network(IMAGES)
    kernel = [[sum(int((s[i] == s[j]).sum()) for s in signs) for j in range(6)] for i in range(6)]
    expected = math.log(np.linalg.det(np.array(kernel, np.float64)))
    assert log_distinctness(SKELETON, cell(CELL), IMAGES) == pytest.approx(expected, rel=1e-6)


def test_equal_images_are_not_distinct() -> None:
    assert log_distinctness(SKELETON, cell(CELL), IMAGES[:1].expand(4, -1, -1, -1)) == -math.inf


def test_a_promise_is_the_mean_of_two_ranks_and_the_random_state_is_left_alone() -> None:
    generator = np.random.default_rng(1)
    genotypes = [random_genotype("nasbench201", generator) for _ in range(6)]
    torch.manual_seed(3)
    expected_random = torch.rand(1)
    torch.manual_seed(3)
    promises = Untrained(SKELETON, IMAGES, seed=0).promises(genotypes)
    assert torch.rand(1) == expected_random
    flows = np.array([log_flow(SKELETON, genotype) for genotype in genotypes])
    patterns = np.array([log_distinctness(SKELETON, genotype, IMAGES) for genotype in genotypes])
    for index, promise in enumerate(promises):
        below = [np.sum(v < v[index]) + (np.sum(v == v[index]) + 1) / 2 for v in (flows, patterns)]
        assert promise == pytest.approx(sum(below) / 12)
    assert Untrained(SKELETON, IMAGES, seed=0).promises([]) == []


def test_networks_that_pass_nothing_promise_least() -> None:
    promises = Untrained(SKELETON, IMAGES, seed=0).promises([cell(CELL), cell(DEAD), cell(WIDE)])
    assert promises[1] == min(promises) < promises[2] == max(promises)


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


def test_convolutions_promise_more_than_nothing() -> None:
    scores = Untrained(SKELETON, IMAGES, seed=0).scores(SPACE, samples=60)["cell"]
    names = SPACE.kinds[0].operations
    assert (scores[:, names.index("nor_conv_3x3")] > scores[:, names.index("none")]).all()


def test_a_promise_decides_where_the_search_has_not() -> None:
    generator = np.random.default_rng(0)
    ours, theirs = ({"normal": generator.normal(size=(3, 4))} for _ in range(2))
    ours["normal"][:, 0] = -np.inf
    choosable = slice(1, None)
    for scale, decides in ((1e-6, theirs), (1e6, ours)):
        scores = add_promise({"normal": scale * ours["normal"]}, theirs, 1.0)["normal"]
        assert np.isneginf(scores[:, 0]).all()
        order = decides["normal"][:, choosable].argsort(axis=1)
        np.testing.assert_array_equal(scores[:, choosable].argsort(axis=1), order)
    doubled = {"normal": 2 * theirs["normal"]}
    np.testing.assert_allclose(add_promise(ours, theirs, 0.5)["normal"], add_promise(ours, doubled, 0.5)["normal"])
    np.testing.assert_array_equal(add_promise(ours, theirs, 0.0)["normal"], ours["normal"])
