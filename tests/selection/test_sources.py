"""Sources: what a search says of a network, and what it does not say."""

import numpy as np
import pytest

from pipeline.selection.sources import measure_alpha
from pipeline.space.genotype import Genotype
from pipeline.space.sampling import random_genotype
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
