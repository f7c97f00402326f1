"""The integer programme against enumeration: 200 random instances, ties, k best, infeasibility, tiny scores."""

from typing import Any

import numpy as np
import pytest

from pipeline.budget.integer_programme import Cut, Programme, best_candidates
from pipeline.budget.limits import Limit
from pipeline.space.cells import Space
from pipeline.space.choices import choices_cost, choices_of, effective_choices, genotype_of
from pipeline.space.costs import Costs, mac_costs
from pipeline.space.genotype import genotype_from_record
from pipeline.space.plan import Choice, count_macs
from pipeline.space.skeleton import Skeleton
from pipeline.space.spaces import space_named
from tests.selection.enumeration import Table
from tests.selection.spaces import LAYERS, ONE_KIND, SMALL_DARTS, quantile_limit, random_costs, random_scores

NASBENCH = space_named("nasbench201")
DARTS = space_named("darts")


@pytest.fixture(scope="module")
def tables() -> dict[str, Table]:
    return {space.name: Table(space) for space in (SMALL_DARTS, ONE_KIND, LAYERS, NASBENCH)}


def test_enumeration_has_the_expected_sizes(tables: dict[str, Table]) -> None:
    assert len(tables["small-darts"].networks) == (9 * 27) ** 2
    assert len(tables["layers"].networks) == 4**5
    assert len(tables["nasbench201"].networks) == _count_heard_nasbench_cells() < 15_625


def _count_heard_nasbench_cells() -> int:
    """Unions of the four paths of the cell, 0→3, 0→1→3, 0→2→3 and 0→1→2→3, one of four operations on every edge."""
    paths = [{3}, {0, 4}, {1, 5}, {0, 2, 5}]  # edges 0→1, 0→2, 1→2, 0→3, 1→3, 2→3
    unions = {frozenset().union(*(paths[i] for i in range(4) if bits >> i & 1)) for bits in range(1, 16)}
    return sum(4 ** len(union) for union in unions)


@pytest.mark.parametrize(
    ("space", "instances"), [(SMALL_DARTS, 60), (ONE_KIND, 50), (LAYERS, 40), (NASBENCH, 50)], ids=lambda v: str(v)[:12]
)
def test_best_equals_brute_force(space: Space, instances: int, tables: dict[str, Table]) -> None:
    table, infeasible = tables[space.name], 0
    for seed in range(instances):
        rng = np.random.default_rng(seed)
        scores = random_scores(space, rng, tied=seed % 2 == 0)
        resources = [random_costs(space, rng, size) for size in (1.0, 1e8, 1e4)]
        of_all = [table.costs(costs) for costs in resources]
        chosen = [i for i in range(3) if rng.uniform() < 0.6]
        limits = [quantile_limit(f"r{i}", resources[i], of_all[i], rng) for i in chosen]
        feasible = np.all([of_all[i] <= limit.at_most for i, limit in zip(chosen, limits, strict=True)], axis=0)
        feasible = np.broadcast_to(feasible, len(table.networks))
        found = Programme(space, scores).best(limits, ties=resources[0])
        if not feasible.any():
            infeasible += 1
            assert found is None
            continue
        assert found is not None
        score = np.where(feasible, table.sums(scores), -np.inf)
        assert found.score == pytest.approx(score.max(), abs=1e-9)
        equals = score >= score.max() - 1e-9
        assert choices_cost(space, resources[0], found.choices) == pytest.approx(of_all[0][equals].min(), rel=1e-9)
        assert found.choices in table
        assert all(choices_cost(space, r.costs, found.choices) <= r.at_most * (1 + 1e-9) for r in limits)
        assert found.gap <= 1e-6
    assert infeasible < instances / 2


def test_scores_of_any_size_are_told_apart(tables: dict[str, Table]) -> None:
    """Differences of 1e-9 decide as well as those of 1e+3: a search that hardly began has tiny margins."""
    table = tables["one-kind"]
    for size in (1e-9, 1e3):
        rng = np.random.default_rng(7)
        scores = {k: v * size for k, v in random_scores(ONE_KIND, rng, tied=False).items()}
        found = Programme(ONE_KIND, scores).best()
        assert found is not None
        assert found.score == pytest.approx(table.sums(scores).max(), rel=1e-9)


def test_a_limit_is_kept_to_the_last_digit(tables: dict[str, Table]) -> None:
    """The solver's tolerance of 1e-6 must not let a network through that misses the limit by a hair."""
    rng = np.random.default_rng(3)
    costs = Costs(0.0, {"cell": rng.uniform(1, 2, (6, 3))})
    of_all = tables["one-kind"].costs(costs)
    scores = {"cell": np.where([True, False, False], -np.inf, costs.choices["cell"])}  # the dearer the better
    wanted = np.sort(of_all)[len(of_all) // 2]
    limit = Limit("r", costs, float(wanted) * (1 - 1e-8), "ms")
    found = Programme(ONE_KIND, scores).best([limit])
    assert found is not None
    assert choices_cost(ONE_KIND, costs, found.choices) == pytest.approx(
        of_all[of_all <= limit.at_most].max(), rel=1e-12
    )


def test_k_best_are_the_k_best(tables: dict[str, Table]) -> None:
    table = tables["small-darts"]
    rng = np.random.default_rng(0)
    scores, costs = random_scores(SMALL_DARTS, rng, tied=False), random_costs(SMALL_DARTS, rng, 1.0)
    of_all = table.costs(costs)
    limit = Limit("r", costs, float(np.quantile(of_all, 0.2)), "ms")
    programme = Programme(SMALL_DARTS, scores)
    found: list[Any] = []
    cuts: list[Any] = []
    for _ in range(12):
        solution = programme.best([limit], cuts)
        assert solution is not None
        found.append(solution.score)
        cuts.append(Cut(solution.choices, len(solution.choices) - 1))
    expected = np.sort(table.sums(scores)[of_all <= limit.at_most])[::-1][:12]
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("space", [SMALL_DARTS, NASBENCH], ids=lambda s: s.name)
def test_candidates_differ_and_are_the_best_that_do(space: Space, tables: dict[str, Table]) -> None:
    table, difference = tables[space.name], 3
    rng = np.random.default_rng(11)
    scores = random_scores(space, rng, tied=False)
    found = list(best_candidates(Programme(space, scores), [], count=6, difference=difference))
    networks = [frozenset(Choice(*c) for c in network) for network in table.networks]
    score, allowed = table.sums(scores), np.ones(len(networks), dtype=bool)
    for solution in found:
        assert solution.score == pytest.approx(np.where(allowed, score, -np.inf).max(), abs=1e-9)
        felt = effective_choices(space, solution.choices)
        allowed &= np.array([len(felt & network) <= len(felt) - difference for network in networks])
    assert len(found) == 6


def test_candidates_end_when_there_are_no_more() -> None:
    scores = {kind.name: np.arange(4.0)[None] for kind in LAYERS.kinds}
    assert len(list(best_candidates(Programme(LAYERS, scores), [], count=9, difference=5))) == 4


def test_idle_edges_are_not_felt() -> None:
    record = {"space": "nasbench201", "cell": "|nor_conv_3x3~0|+|nor_conv_1x1~0|none~1|+|skip_connect~0|none~1|none~2|"}
    felt = effective_choices(NASBENCH, choices_of(NASBENCH, genotype_from_record(record)))
    # Only 0→3 carries anything; the two `none` into node 3 would be felt if they were something else.
    assert sorted(c.edge for c in felt) == [3, 4, 5]
    whole = {"space": "nasbench201", "cell": "|skip_connect~0|+|skip_connect~0|none~1|+|none~0|skip_connect~1|none~2|"}
    assert sorted(c.edge for c in effective_choices(NASBENCH, choices_of(NASBENCH, genotype_from_record(whole)))) == [
        0,
        3,
        4,
        5,
    ]


def test_a_network_must_listen_to_its_input() -> None:
    scores = {"cell": np.where(np.array(NASBENCH.kinds[0].operations) == "none", 1.0, 0.0)[None].repeat(6, axis=0)}
    found = Programme(NASBENCH, scores).best()
    assert found is not None
    assert found.score == 5  # one edge, the direct one, gives up its `none`
    assert {c.edge for c in found.choices if c.operation != "none"} == {3}


def test_an_operation_that_nobody_hears_is_not_paid_for() -> None:
    """Convolutions into node 1 have the highest scores; what counts is that both edges out of it are dear."""
    kind = NASBENCH.kinds[0]
    scores = {"cell": np.zeros((6, 5))}
    costs = Costs(0.0, {"cell": np.zeros((6, 5))})
    scores["cell"][0, kind.operations.index("nor_conv_3x3")] = 10.0  # 0→1
    scores["cell"][3, kind.operations.index("skip_connect")] = 1.0  # 0→3
    costs.choices["cell"][[2, 4]] = np.where(np.array(kind.operations) == "none", 0.0, 5.0)  # 1→2, 1→3
    programme = Programme(NASBENCH, scores)
    loose, tight = (programme.best([Limit("r", costs, at_most, "ms")], ties=costs) for at_most in (5.0, 4.0))
    assert loose is not None and loose.score == 11.0
    assert tight is not None and tight.score == 1.0
    assert not any(c.edge == 0 and c.operation != "none" for c in tight.choices)


def test_darts_solutions_are_genotypes_within_their_macs() -> None:
    skeleton = Skeleton("darts", 5, 16, 32, 10)
    costs = mac_costs(skeleton)
    scores = random_scores(DARTS, np.random.default_rng(5), tied=False)
    free = Programme(DARTS, scores).best()
    assert free is not None
    limit = Limit("max_macs", costs, 0.7 * choices_cost(DARTS, costs, free.choices), "MACs")
    found = Programme(DARTS, scores).best([limit], ties=costs)
    assert found is not None
    genotype = genotype_of(DARTS, found.choices)
    assert choices_of(DARTS, genotype) == found.choices
    assert count_macs(skeleton, genotype) <= limit.at_most
    assert found.score < free.score


def test_operations_without_a_score_are_never_chosen() -> None:
    scores = random_scores(SMALL_DARTS, np.random.default_rng(1), tied=False)
    scores["normal"][:, 2] = -np.inf
    found = Programme(SMALL_DARTS, scores).best()
    assert found is not None
    assert not any(c.kind == "normal" and c.operation == "conv" for c in found.choices)
