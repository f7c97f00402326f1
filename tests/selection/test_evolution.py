"""Climbing: the best network as a whole, where a sum over choices points elsewhere."""

import pytest

from pipeline.selection.evolution import Climber, neighbours
from pipeline.space.choices import Choices, choices_of, genotype_of
from pipeline.space.genotype import genotype_from_record
from pipeline.space.spaces import space_named
from tests.conftest import DARTS_V2_RECORD

NASBENCH = space_named("nasbench201")
EMPTY = "|none~0|+|none~0|none~1|+|none~0|none~1|none~2|"


def nasbench_cell(text: str) -> Choices:
    return choices_of(NASBENCH, genotype_from_record({"space": "nasbench201", "cell": text}))


def operations(choices: Choices) -> list[str]:
    return [choice.operation for choice in sorted(choices)]


def test_neighbours_differ_in_one_choice_and_are_networks() -> None:
    start = nasbench_cell(EMPTY)
    found = list(neighbours(NASBENCH, start))
    assert len(set(found)) == len(found) == 6 * 4
    assert all(len(start - changed) == 1 for changed in found)


def test_neighbours_in_darts_change_operations_and_inputs() -> None:
    space = space_named("darts")
    start = choices_of(space, genotype_from_record(DARTS_V2_RECORD))
    found = list(neighbours(space, start))
    # two kinds: 8 kept edges with 6 other operations each; nodes 1, 2, 3 have 1, 2, 3 free inputs for either of two
    assert len(set(found)) == len(found) == 2 * (8 * 6 + 2 * (1 + 2 + 3))
    for changed in found:
        genotype_of(space, changed)  # valid by construction, or an error


def test_finds_what_no_sum_over_choices_shows() -> None:
    """Three convolutions in a row are worth something together, and each alone is a loss."""

    def worth(choices: Choices) -> float:
        names = operations(choices)
        in_a_row = [names[edge].startswith("nor_conv") for edge in (0, 2, 5)]
        return {0: 0, 1: 0.2, 2: 0.5, 3: 10}[sum(in_a_row)] - 0.1 * sum(name != "none" for name in names)

    best = Climber(NASBENCH, worth, 300, seed=0).climb([nasbench_cell(EMPTY)], lambda _: True)[0]
    assert worth(best) == pytest.approx(10 - 0.3)


@pytest.mark.parametrize("asks", [1, 7, 40])
def test_asks_no_more_than_allowed_and_never_of_a_network_that_does_not_fit(asks: int) -> None:
    asked: list[Choices] = []

    def worth(choices: Choices) -> float:
        asked.append(choices)
        return float(len(asked))

    def fits(choices: Choices) -> bool:
        return operations(choices).count("none") >= 4

    found = Climber(NASBENCH, worth, asks, seed=1).climb([nasbench_cell(EMPTY)] * 3, fits)
    assert len(asked) == len(set(asked)) == len(found) == asks
    assert all(fits(choices) for choices in asked)
    assert found == asked[::-1]


def test_ends_when_nothing_else_fits() -> None:
    start = nasbench_cell(EMPTY)
    climber = Climber(NASBENCH, lambda _: 0.0, 100, seed=0)
    assert climber.climb([], lambda _: True) == []
    assert climber.climb([start], lambda _: False) == []
    assert climber.climb([start], lambda choices: choices == start) == [start]


def test_the_same_seed_takes_the_same_way() -> None:
    def worth(choices: Choices) -> float:
        return float(sum(choice.edge * len(choice.operation) % 7 for choice in choices))

    start = [nasbench_cell(EMPTY)]
    first, again, other = (Climber(NASBENCH, worth, 30, seed).climb(start, lambda _: True) for seed in (3, 3, 4))
    assert first == again != other


def test_what_was_asked_under_one_limit_is_known_under_the_next() -> None:
    asked: list[Choices] = []

    def worth(choices: Choices) -> float:
        asked.append(choices)
        return float(6 - operations(choices).count("none"))

    climber = Climber(NASBENCH, worth, 200, seed=0)
    free = climber.climb([nasbench_cell(EMPTY)], lambda _: True)
    assert worth(free[0]) == 6.0
    first = len(asked)
    tight = climber.climb([nasbench_cell(EMPTY)], lambda choices: operations(choices).count("none") >= 3)
    assert len(asked) == len(set(asked)) + 1  # the one asked above
    assert len(asked) - first <= 200
    assert worth(tight[0]) == 3.0
    assert [worth(choices) for choices in tight] == sorted((worth(choices) for choices in tight), reverse=True)


def test_gives_up_when_nothing_gets_better() -> None:
    asked: list[Choices] = []
    Climber(NASBENCH, lambda choices: asked.append(choices) or 0.0, 400, seed=0).climb(  # type: ignore[func-returns-value]
        [nasbench_cell(EMPTY)], lambda _: True
    )
    assert len(asked) == 1 + 101
