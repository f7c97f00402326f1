"""Evolution: the best network as a whole, where a sum over choices points elsewhere."""

import pytest

from pipeline.selection.evolution import Evolution, neighbours
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
    start = nasbench_cell(EMPTY.replace("none", "skip_connect"))
    found = list(neighbours(NASBENCH, start))
    assert len(set(found)) == len(found) == 6 * 4
    assert all(len(start - changed) == 1 for changed in found)


def test_no_neighbour_ignores_its_input() -> None:
    """An empty cell has only those with an operation from its input to its output; an operation elsewhere is no way."""
    found = list(neighbours(NASBENCH, nasbench_cell(EMPTY)))
    assert len(found) == 4
    for changed in found:
        (passing,) = (choice for choice in changed if choice.operation != "none")
        assert NASBENCH.kinds[0].edges[passing.edge] == (2, 0)
    one_way = nasbench_cell("|none~0|+|none~0|none~1|+|skip_connect~0|none~1|none~2|")
    assert nasbench_cell(EMPTY) not in list(neighbours(NASBENCH, one_way))


def test_an_evolution_never_offers_what_ignores_its_input() -> None:
    """Scores that like `none` best lead to the cell with the fewest operations, not to the one without any."""

    def score(choices: Choices) -> float:
        return operations(choices).count("none")

    start = nasbench_cell(EMPTY.replace("none", "nor_conv_1x1"))
    best = Evolution(NASBENCH, score, 400, seed=0).evolve([start], lambda _: True)[0]
    kept = [choice for choice in sorted(best) if choice.operation != "none"]
    assert [NASBENCH.kinds[0].edges[choice.edge] for choice in kept] == [(2, 0)]


def test_neighbours_in_darts_change_operations_and_inputs() -> None:
    space = space_named("darts")
    start = choices_of(space, genotype_from_record(DARTS_V2_RECORD))
    found = list(neighbours(space, start))
    # two kinds: 8 kept edges with 6 other operations each; nodes 1, 2, 3 have 1, 2, 3 free inputs for either of two
    assert len(set(found)) == len(found) == 2 * (8 * 6 + 2 * (1 + 2 + 3))
    for changed in found:
        genotype_of(space, changed)  # valid by construction, or an error


def test_finds_what_no_sum_over_choices_shows() -> None:
    """Three convolutions in a row score together, and each alone is a loss."""

    def score(choices: Choices) -> float:
        names = operations(choices)
        in_a_row = [names[edge].startswith("nor_conv") for edge in (0, 2, 5)]
        return {0: 0, 1: 0.2, 2: 0.5, 3: 10}[sum(in_a_row)] - 0.1 * sum(name != "none" for name in names)

    best = Evolution(NASBENCH, score, 300, seed=0).evolve([nasbench_cell(EMPTY)], lambda _: True)[0]
    assert score(best) == pytest.approx(10 - 0.3)


@pytest.mark.parametrize("evaluations", [1, 7, 40])
def test_evaluations_no_more_than_allowed_and_never_of_a_network_that_does_not_fit(evaluations: int) -> None:
    evaluated: list[Choices] = []

    def score(choices: Choices) -> float:
        evaluated.append(choices)
        return float(len(evaluated))

    def fits(choices: Choices) -> bool:
        return operations(choices).count("none") >= 4

    found = Evolution(NASBENCH, score, evaluations, seed=1).evolve([nasbench_cell(EMPTY)] * 3, fits)
    assert len(evaluated) == len(set(evaluated)) == len(found) == evaluations
    assert all(fits(choices) for choices in evaluated)
    assert found == evaluated[::-1]


def test_ends_when_nothing_else_fits() -> None:
    start = nasbench_cell(EMPTY)
    evolution = Evolution(NASBENCH, lambda _: 0.0, 100, seed=0)
    assert evolution.evolve([], lambda _: True) == []
    assert evolution.evolve([start], lambda _: False) == []
    assert evolution.evolve([start], lambda choices: choices == start) == [start]


def test_the_same_seed_takes_the_same_way() -> None:
    def score(choices: Choices) -> float:
        return float(sum(choice.edge * len(choice.operation) % 7 for choice in choices))

    start = [nasbench_cell(EMPTY)]
    first, again, other = (Evolution(NASBENCH, score, 30, seed).evolve(start, lambda _: True) for seed in (3, 3, 4))
    assert first == again != other


def test_what_was_evaluated_under_one_limit_is_known_under_the_next() -> None:
    evaluated: list[Choices] = []

    def score(choices: Choices) -> float:
        evaluated.append(choices)
        return float(6 - operations(choices).count("none"))

    evolution = Evolution(NASBENCH, score, 200, seed=0)
    free = evolution.evolve([nasbench_cell(EMPTY)], lambda _: True)
    assert score(free[0]) == 6.0
    first = len(evaluated)
    tight = evolution.evolve([nasbench_cell(EMPTY)], lambda choices: operations(choices).count("none") >= 3)
    assert len(evaluated) == len(set(evaluated)) + 1  # the one evaluated above
    assert len(evaluated) - first <= 200
    assert score(tight[0]) == 3.0
    assert [score(choices) for choices in tight] == sorted((score(choices) for choices in tight), reverse=True)


def test_gives_up_when_nothing_gets_better() -> None:
    evaluated: list[Choices] = []
    Evolution(NASBENCH, lambda choices: evaluated.append(choices) or 0.0, 400, seed=0).evolve(  # type: ignore[func-returns-value]
        [nasbench_cell(EMPTY)], lambda _: True
    )
    assert len(evaluated) == 1 + 101
