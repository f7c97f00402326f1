"""What untrained networks promise, scores that explain values by their choices, and what a network is worth."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from pipeline.selection.activations import direction_entropy, look_at_activations
from pipeline.selection.flow import log_flow
from pipeline.selection.promise import AtDepth, Untrained, Worth, explain, place_among
from pipeline.space.choices import choices_of, effective_choices, without_idle
from pipeline.space.plan import count_macs
from pipeline.space.sampling import random_genotype
from pipeline.space.spaces import space_named
from tests.selection.test_flow import CELL, DEAD, SKELETON, cell

SPACE = space_named("nasbench201")
IMAGES = torch.rand(6, 1, 8, 8, generator=torch.Generator().manual_seed(0))
WIDE = "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_3x3~2|"


def look_by_hand() -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Which ReLUs every image switches on, and the features after every part, of a network built and run here."""
    from pipeline.space.network import Network

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = Network(SKELETON, cell(CELL)).train()
    signs: list[torch.Tensor] = []
    for module in network.modules():
        if isinstance(module, torch.nn.ReLU):
            module.register_forward_pre_hook(lambda _, inputs: signs.append(inputs[0].flatten(1) > 0))
    with torch.no_grad():
        features = network.features(IMAGES, lambda module, _, inputs: module(inputs))
        network.head(features[-1])
    return signs, features


def test_distinctness_counts_agreeing_relus_one_by_one() -> None:
    signs, _ = look_by_hand()
    kernel = [[sum(int((s[i] == s[j]).sum()) for s in signs) for j in range(6)] for i in range(6)]
    expected = math.log(np.linalg.det(np.array(kernel, np.float64)))
    assert look_at_activations(SKELETON, cell(CELL), IMAGES).distinctness == pytest.approx(expected, rel=1e-6)


def test_arrival_and_progress_are_those_of_the_singular_values() -> None:
    """The covariance's eigenvalues are the squared singular values of the centred features."""
    _, features = look_by_hand()
    entropies = []
    for part in features:
        columns = part.double().permute(0, 2, 3, 1).reshape(-1, part.shape[1]).numpy()
        variances = np.linalg.svd(columns - columns.mean(axis=0), compute_uv=False) ** 2
        shares = variances / variances.sum()
        entropies.append(-sum(share * math.log(share) for share in shares if share > 1e-12))
    found = look_at_activations(SKELETON, cell(CELL), IMAGES)
    assert found.progress == pytest.approx(min(np.diff(entropies)), rel=1e-3, abs=1e-5)
    assert found.arrival == pytest.approx(entropies[-1], rel=1e-4)


def test_the_entropy_of_directions() -> None:
    generator = torch.Generator().manual_seed(0)
    one = torch.randn(50, 1, 4, 4, generator=generator)
    assert direction_entropy(one) == pytest.approx(0.0, abs=1e-6)
    assert direction_entropy(torch.cat([one, -3 * one], dim=1)) == pytest.approx(0.0, abs=1e-4)
    assert direction_entropy(torch.randn(500, 5, 4, 4, generator=generator)) == pytest.approx(math.log(5), abs=1e-2)
    assert direction_entropy(torch.ones(3, 2, 4, 4)) == 0.0


def test_equal_images_are_not_distinct() -> None:
    assert look_at_activations(SKELETON, cell(CELL), IMAGES[:1].expand(4, -1, -1, -1)).distinctness == -math.inf


def test_a_place_lies_between_the_values_around_it() -> None:
    values = np.array([3.0, 1.0, -math.inf, 2.0])
    assert place_among(values, 1.0) == (1 + 0.5) / 4
    assert place_among(values, 2.5) == (1 + 2.0) / 4
    assert place_among(values, -math.inf) == 0.5 / 4
    assert place_among(values, 3.0) < place_among(values, 4.0) < place_among(values, 4.5) <= 1.0
    assert 0.25 <= place_among(values, -0.5) < place_among(values, 0.5) < place_among(values, 1.0)
    assert place_among(np.array([-math.inf]), 7.0) == 0.5
    assert place_among(np.array([2.0, 2.0]), 2.0) == pytest.approx(0.5, abs=0.26)


def test_a_promise_is_the_mean_place_in_units_of_the_spread_and_the_random_state_is_left_alone() -> None:
    torch.manual_seed(3)
    expected_random = torch.rand(1)
    torch.manual_seed(3)
    untrained = Untrained(SKELETON, IMAGES, seed=0, samples=7)
    promise = untrained.promise(cell(WIDE))
    assert torch.rand(1) == expected_random

    def figures(genotype) -> tuple[float, ...]:  # type: ignore[no-untyped-def]
        heard = without_idle(SPACE, genotype)
        seen = look_at_activations(SKELETON, heard, IMAGES)
        return log_flow(SKELETON, heard), seen.distinctness, seen.progress, count_macs(SKELETON, heard)

    generator = np.random.default_rng(0)
    drawn = np.array([figures(random_genotype("nasbench201", generator)) for _ in range(7)])
    place_of = lambda row: np.mean([place_among(drawn[:, i], row[i]) for i in range(4)])  # noqa: E731
    places = np.array([place_of(row) for row in drawn])
    assert promise == pytest.approx((place_of(figures(cell(WIDE))) - places.mean()) / places.std())


def test_networks_that_pass_nothing_promise_least() -> None:
    untrained = Untrained(SKELETON, IMAGES, seed=0, samples=20)
    assert untrained.promise(cell(DEAD)) < untrained.promise(cell(CELL)) < untrained.promise(cell(WIDE))


IDLE = "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|nor_conv_3x3~0|none~1|none~2|"
BARE = "|none~0|+|none~0|none~1|+|nor_conv_3x3~0|none~1|none~2|"


def test_idle_choices_promise_nothing() -> None:
    assert without_idle(SPACE, cell(IDLE)).record() == cell(BARE).record()
    untrained = Untrained(SKELETON, IMAGES, seed=0, samples=5)
    assert untrained.promise(cell(IDLE)) == untrained.promise(cell(BARE))
    generator = np.random.default_rng(0)
    for _ in range(50):
        genotype = random_genotype("nasbench201", generator)
        once = without_idle(SPACE, genotype)
        choices = choices_of(SPACE, once)
        assert {c for c in choices if c.operation != "none"} <= effective_choices(SPACE, choices_of(SPACE, genotype))
        assert without_idle(SPACE, once) == once


def test_places_at_depth_are_those_of_arrival_and_progress_in_a_deeper_network() -> None:
    genotypes = [cell(text) for text in (CELL, WIDE, BARE, IDLE)]
    deep = replace(SKELETON, cells=6)
    seen = np.array(
        [
            np.mean([look_at_activations(deep, cell(text), IMAGES, seed)[1:] for seed in (4, 5)], axis=0)
            for text in (CELL, WIDE, BARE, BARE)
        ]
    )
    below = [[np.sum(column < value) + np.sum(column == value) / 2 for value in column] for column in seen.T]
    at_depth = AtDepth(SKELETON, IMAGES, seed=4)
    assert at_depth.places(6, genotypes) == pytest.approx(list(np.mean(below, axis=0) / 4))
    assert at_depth.places(6, []) == []


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
    scores = Untrained(SKELETON, IMAGES, seed=0, samples=60).scores()["cell"]
    names = SPACE.kinds[0].operations
    assert (scores[:, names.index("nor_conv_3x3")] > scores[:, names.index("none")]).all()


class Promising(Untrained):
    """Promises that are given."""

    def __init__(self, scores: np.ndarray, promises: dict[str, float]) -> None:
        self.given, self.promises = scores, promises

    def scores(self) -> dict[str, np.ndarray]:
        return {"cell": self.given}

    def promise(self, genotype) -> float:  # type: ignore[no-untyped-def]
        return self.promises[genotype.record()["cell"]]


def test_a_promise_decides_where_the_search_has_not() -> None:
    generator = np.random.default_rng(0)
    ours, theirs = (generator.normal(size=(6, 5)) for _ in range(2))
    ours[:, 0] = -np.inf
    choosable = slice(1, None)
    promises = Promising(theirs, {CELL: 1.0, WIDE: 2.0})
    for scale, decides in ((1e-6, theirs), (1e6, ours)):
        scores = Worth(SPACE, {"cell": scale * ours}, promises, 1.0).scores["cell"]
        assert np.isneginf(scores[:, 0]).all()
        order = decides[:, choosable].argsort(axis=1)
        np.testing.assert_array_equal(scores[:, choosable].argsort(axis=1), order)
    twice = Worth(SPACE, {"cell": ours}, Promising(2 * theirs, {}), 0.5).scores["cell"]
    np.testing.assert_allclose(Worth(SPACE, {"cell": ours}, promises, 0.5).scores["cell"], twice)
    np.testing.assert_array_equal(Worth(SPACE, {"cell": ours}, promises, 0.0).scores["cell"], ours)


def test_worth_is_the_sum_of_log_odds_and_the_promise_of_the_whole_network() -> None:
    ours, theirs = np.arange(30.0).reshape(6, 5), np.tile([1.0, -1.0, 1.0, -1.0, 0.0], (6, 1))
    worth = Worth(SPACE, {"cell": ours}, Promising(theirs, {CELL: 1.5, WIDE: -0.5}), 2.0)
    names = SPACE.kinds[0].operations
    for text, promise in ((CELL, 1.5), (WIDE, -0.5)):
        kept = list(cell(text).kept(SPACE.kinds[0]))
        odds = sum(ours[k.edge, names.index(k.operation)] for k in kept)
        assert worth(choices_of(SPACE, cell(text))) == pytest.approx(odds + 2.0 / theirs.std() * promise)
