"""Sources: what a search says of a network, and what it does not say."""

import numpy as np
import pytest
import torch

from pipeline.selection.evidence import Evidence
from pipeline.selection.short_training import trial_skeleton
from pipeline.selection.sources import Sources, measure_alpha, measure_size, measure_zero_cost, proxy_skeleton
from pipeline.space.genotype import Genotype, genotype_from_record
from pipeline.space.sampling import random_genotype
from pipeline.space.skeleton import Skeleton
from pipeline.space.spaces import space_named


def scores_of(space_name: str) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(4)
    return {
        kind.name: generator.normal(size=(len(kind.edges), len(kind.operations)))
        for kind in space_named(space_name).kinds
    }


@pytest.mark.parametrize("name", ["nasbench201", "darts"])
def test_alpha_is_the_sum_of_scores_and_none_is_no_news(name: str) -> None:
    """Of an edge that is left out it expects the mean of what passes on; a space without that choice has the sum."""
    space, scores = space_named(name), scores_of(name)

    def expected(network: Genotype) -> float:
        total = 0.0
        for kind in space.kinds:
            for kept in network.kept(kind):
                row = dict(zip(kind.operations, scores[kind.name][kept.edge], strict=True))
                passing = [score for operation, score in row.items() if operation != "none"]
                total += sum(passing) / len(passing) if kept.operation == "none" else row[kept.operation]
        return total

    measure, generator = measure_alpha(space, scores), np.random.default_rng(5)
    networks = [random_genotype(name, generator) for _ in range(20)]
    assert any("none" in str(network.record()) for network in networks) == space.kinds[0].none_is_choice
    assert [measure.of(network)[0] for network in networks] == pytest.approx(list(map(expected, networks)))


def test_a_network_that_ignores_its_input_is_the_worst_by_every_figure() -> None:
    """Its one operation leads nowhere; the edges around it would score as the mean of what passes on."""

    def cell(text: str) -> Genotype:
        return genotype_from_record({"space": "nasbench201", "cell": text})

    dead = cell("|nor_conv_3x3~0|+|none~0|none~1|+|none~0|none~1|none~2|")
    least = cell("|none~0|+|none~0|none~1|+|avg_pool_3x3~0|none~1|none~2|")
    skeleton = Skeleton("nasbench201", cells=3, channels=4, resolution=8, classes=10)
    sources = Sources([measure_alpha(space_named("nasbench201"), scores_of("nasbench201")), measure_size(skeleton)])
    assert sources.figures(dead) == [-np.inf] * 3
    assert np.isfinite(sources.figures(least)).all()
    generator = np.random.default_rng(6)
    reference = sources.look([random_genotype("nasbench201", generator) for _ in range(30)])
    evidence = Evidence(sources.names, sources.look([]), [], reference[np.isfinite(reference).all(axis=1)])
    predicted = evidence.predict(sources.look([dead, least]))
    assert np.isfinite(predicted).all() and predicted[0] < predicted[1]


@pytest.mark.parametrize(
    ("space", "searched", "target"),
    [("darts", (6, 16, 64), (20, 36, 224)), ("nasbench-macro", (8, 16, 16), (8, 32, 32))],
)
def test_proxies_see_networks_as_deep_as_the_target_and_as_narrow_as_short_trainings(
    space: str, searched: tuple[int, int, int], target: tuple[int, int, int]
) -> None:
    small, large = (
        Skeleton(space, cells=cells, channels=channels, resolution=resolution, classes=7)
        for cells, channels, resolution in (searched, target)
    )
    found, trial = proxy_skeleton(small, large), trial_skeleton(small)
    assert (found.cells, found.channels, found.resolution, found.classes) == (target[0], 8, trial.resolution, 7)


def test_a_proxy_that_is_idle_is_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.selection.sources.log_synflow", lambda *_: pytest.fail("nobody asks it"))
    skeleton = Skeleton("nasbench201", cells=3, channels=4, resolution=8, classes=10)
    sources = Sources(measure_zero_cost(skeleton, torch.randn(4, 3, 8, 8), 0)).without(["synflow", "progressivity"])
    network = random_genotype("nasbench201", np.random.default_rng(0))
    synflow, naswot, expressivity, _ = sources.figures(network)
    assert synflow == 0.0 and np.isfinite([naswot, expressivity]).all()
