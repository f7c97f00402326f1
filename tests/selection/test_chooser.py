"""Sizes and limits: a generous budget buys a larger network, and what cannot be kept is named with its figures."""

from itertools import product

import numpy as np
import pytest

from pipeline.budget.feasibility import check_feasible, find_conflict
from pipeline.budget.limits import Limit
from pipeline.budget.targets import Demands, skeleton_grid
from pipeline.errors import PromiseBroken, UserError
from pipeline.selection.chooser import random_score
from pipeline.space.costs import Costs
from pipeline.space.extremes import cheapest_genotype, costliest_genotype
from pipeline.space.plan import count_macs, count_params
from tests.selection.enumeration import Table
from tests.selection.fakes import DARTS, SMALL, make_chooser, targets
from tests.selection.spaces import ONE_KIND, SMALL_DARTS, random_costs, random_scores

GRID = skeleton_grid(SMALL, [3, 5], [8, 12, 16])


def test_the_grid_is_every_combination() -> None:
    assert [(s.cells, s.channels) for s in GRID] == list(product([3, 5], [8, 12, 16]))
    assert skeleton_grid(SMALL, [], []) == [SMALL]
    with pytest.raises(UserError, match="channels_grid"):
        skeleton_grid(SMALL, [], [8, 8])


def test_a_generous_budget_buys_a_larger_network_with_a_good_cell() -> None:
    chooser = make_chooser(GRID, score_share=0.9)
    sizes = []
    for budget in (1.2, 2.0, 4.0, 8.0, 16.0, 100.0):
        chosen = chooser.choose(Demands(budget, 50))
        assert chosen is not None
        assert chosen.predicted.ms <= budget
        # Brute force over sizes: nothing larger keeps the share, unless nothing keeps it at all.
        options = chooser.options(Demands(budget, 50))
        assert len(options) == sum(t.latency.of(cheapest_genotype(DARTS, t.latency)) <= budget for t in chooser.targets)
        good = [option for option in options if option.share >= 0.9]
        if good:
            assert chosen.share >= 0.9
            assert chosen.macs == max(option.macs for option in good)
        else:
            assert chosen.score == max(option.score for option in options)
        sizes.append(chosen.macs)
    assert sizes == sorted(sizes)
    assert chosen is not None and chosen.target.skeleton == GRID[-1]
    assert chosen.share == pytest.approx(1.0)


def test_shares_run_from_a_random_cell_to_the_best() -> None:
    scores = random_scores(SMALL_DARTS, np.random.default_rng(0), tied=False)
    table = Table(SMALL_DARTS)
    assert random_score(SMALL_DARTS, scores) == pytest.approx(table.sums(scores).mean(), abs=1e-9)
    chooser = make_chooser()
    best = chooser.choose(Demands(1e9, 50))
    assert best is not None
    assert best.share == pytest.approx(1.0)


def test_counts_of_a_pick_are_those_of_the_network() -> None:
    chosen = make_chooser().choose(Demands(1e9, 50, max_macs=2_000_000, max_params=40_000))
    assert chosen is not None
    assert chosen.macs == count_macs(SMALL, chosen.genotype) <= 2_000_000
    assert chosen.params == count_params(SMALL, chosen.genotype) <= 40_000


def test_fastest_within_the_other_limits() -> None:
    chooser = make_chooser(GRID)
    chosen = chooser.fastest(Demands(0.001, 50))
    assert chosen is not None
    latency = targets()[0].latency
    assert chosen.target.skeleton == SMALL
    assert chosen.predicted.ms == pytest.approx(latency.of(cheapest_genotype(DARTS, latency)), rel=1e-12)
    assert chooser.fastest(Demands(1.0, 50, max_macs=10)) is None


@pytest.mark.parametrize("seed", range(5))
def test_extremes_are_those_of_all_networks(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from pipeline.space import spaces

    for space in (SMALL_DARTS, ONE_KIND):
        monkeypatch.setitem(spaces._SPACES, space.name, space)
        costs = random_costs(space, np.random.default_rng(seed), 1.0)
        of_all = Table(space).costs(costs)
        assert costs.of(cheapest_genotype(space, costs)) == pytest.approx(of_all.min(), rel=1e-12)
        assert costs.of(costliest_genotype(space, costs)) == pytest.approx(of_all.max(), rel=1e-12)


def test_a_limit_below_every_network_is_named_with_the_least() -> None:
    costs = random_costs(ONE_KIND, np.random.default_rng(0), 1.0)
    least = float(Table(ONE_KIND).costs(costs).min())
    reason = find_conflict(ONE_KIND, [Limit("budget_ms", costs, 0.9 * least, "ms")])
    assert reason is not None
    assert reason.startswith("budget_ms = ")
    assert f"{least:.2f} ms" in reason
    assert find_conflict(ONE_KIND, [Limit("budget_ms", costs, 1.0001 * least, "ms")]) is None


def test_demands_are_feasible_if_one_size_keeps_them() -> None:
    sizes = targets(GRID)
    fastest = [size.latency.of(cheapest_genotype(DARTS, size.latency)) for size in sizes]
    check_feasible(DARTS, sizes, Demands(1.01 * min(fastest), 50))
    with pytest.raises(PromiseBroken, match=f"{min(fastest):.3g} ms"):
        check_feasible(DARTS, sizes, Demands(0.99 * min(fastest), 50))
    with pytest.raises(PromiseBroken, match="budget_ms"):
        check_feasible(DARTS, sizes, Demands(1.01 * min(fastest), 95))  # the fake's p95 is 1.25 times its p50


def test_two_limits_that_contradict_each_other_are_named() -> None:
    fast = {"cell": np.tile([0.0, 1.0, 3.0], (6, 1))}
    small = {"cell": np.tile([0.0, 3.0, 1.0], (6, 1))}
    limits = [
        Limit("max_params", Costs(0.0, {"cell": np.ones((6, 3))}), 99e6, "parameters"),
        Limit("budget_ms", Costs(0.0, fast), 4.0, "ms"),
        Limit("max_macs", Costs(0.0, small), 4.0, "MACs"),
    ]
    reason = find_conflict(ONE_KIND, limits)
    assert reason is not None
    assert reason.startswith("budget_ms and max_macs contradict each other")
    assert find_conflict(ONE_KIND, limits[:2]) is None
    assert find_conflict(ONE_KIND, [limits[0], limits[2]]) is None


def test_three_limits_that_only_fail_together_are_named() -> None:
    """With x, y ∈ {0, 1}: x ≤ y, x + y ≤ 1 and x ≥ 1 can be kept two by two, but not all at once."""

    def costs(x: float, not_x: float, y: float, not_y: float) -> Costs:
        first, second = [[0.0, x, not_x]], [[0.0, y, not_y]] * 2
        return Costs(0.0, {"cell": np.array([*first, *second, *[[0.0] * 3] * 3])})

    limits = [
        Limit("a", costs(1, 0, 0, 1), 1.0, "ms"),
        Limit("b", costs(1, 0, 1, 0), 1.0, "ms"),
        Limit("c", costs(0, 1, 0, 0), 0.5, "ms"),
    ]
    for i in range(3):
        assert find_conflict(ONE_KIND, limits[:i] + limits[i + 1 :]) is None
    assert find_conflict(ONE_KIND, limits) == "a, b, c cannot be kept together, though any two of them can"
