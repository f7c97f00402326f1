"""Structure as numbers: counts and depths by hand, and sums over choices that are found again."""

import numpy as np
import pytest

from pipeline.selection.structure import additive_scores, counts_and_depths, effective
from pipeline.space.genotype import Genotype
from pipeline.space.sampling import random_genotype
from pipeline.space.spaces import space_named
from tests.selection.test_zero_cost import CELL, cell

IDLE = "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|nor_conv_3x3~0|none~1|none~2|"
BARE = "|none~0|+|none~0|none~1|+|nor_conv_3x3~0|none~1|none~2|"


def test_counts_and_the_longest_path() -> None:
    """Operations in the order none, skip, 1×1, 3×3, pool: over the network, then over its one kind, then the depth."""
    names = space_named("nasbench201").kinds[0].operations
    found = counts_and_depths(cell(CELL))
    counted = {name: float(CELL.count(name)) for name in names}
    assert found.tolist() == [counted[name] for name in names] * 2 + [3.0]  # 3×3, 1×1, 3×3 along nodes 0, 1, 2


def test_what_has_no_effect_is_not_counted() -> None:
    names = space_named("nasbench201").kinds[0].operations
    found = dict(zip(names, counts_and_depths(cell(IDLE)).tolist(), strict=False))
    assert found["nor_conv_3x3"] == 1.0
    assert counts_and_depths(cell(IDLE))[-1] == 1.0
    assert {c for c in effective(cell(IDLE)) if c.operation != "none"} <= effective(cell(BARE))


@pytest.mark.parametrize("name", ["nasbench201", "darts"])
def test_sums_of_choices_are_found_again(name: str) -> None:
    space, generator = space_named(name), np.random.default_rng(0)
    truth = {kind.name: generator.normal(size=(len(kind.edges), len(kind.operations))) for kind in space.kinds}

    def total(genotype: Genotype, scores: dict[str, np.ndarray]) -> float:
        return sum(
            float(scores[kind.name][kept.edge, kind.operations.index(kept.operation)])
            for kind in space.kinds
            for kept in genotype.kept(kind)
        )

    seen = [random_genotype(name, generator) for _ in range(1500)]
    found = additive_scores(space, seen, [total(genotype, truth) for genotype in seen])
    new = [random_genotype(name, generator) for _ in range(100)]
    pairs = np.array([[total(genotype, truth), total(genotype, found)] for genotype in new])
    assert np.corrcoef(pairs.T)[0, 1] > 0.99
