"""The integer programme on layer-wise spaces: every code of NAS-Bench-Macro beside it, and the depth of mobile."""

import numpy as np
import pytest

from pipeline.budget.integer_programme import Programme, even_scores
from pipeline.budget.limits import Limit
from pipeline.space.choices import choices_cost, genotype_of, without_idle
from pipeline.space.costs import mac_costs, param_costs
from pipeline.space.extremes import cheapest_genotype, costliest_genotype
from pipeline.space.genotype import genotype_from_record
from pipeline.space.plan import count_macs
from pipeline.space.skeleton import Skeleton
from pipeline.space.spaces import space_named
from tests.selection.enumeration import Table
from tests.selection.spaces import random_scores

MACRO, MOBILE = space_named("nasbench-macro"), space_named("mobile")


def test_brute_force_over_all_codes_at_nine_budgets() -> None:
    skeleton = Skeleton("nasbench-macro", cells=8, channels=32, resolution=32, classes=10)
    macs, params, table = mac_costs(skeleton), param_costs(skeleton), Table(MACRO)
    assert len(table.networks) == 3**8
    of_all, sizes = table.costs(macs), table.costs(params)
    for seed in range(4):
        scores = random_scores(MACRO, np.random.default_rng(seed), tied=seed % 2 == 0)
        programme, worth = Programme(MACRO, scores), table.sums(scores)
        for budget in np.quantile(of_all, np.arange(0.1, 1, 0.1)):
            limits = [Limit("max_macs", macs, float(budget), "MACs"), Limit("max_params", params, 1.5e6, "parameters")]
            fits = (of_all <= budget) & (sizes <= 1.5e6)
            found = programme.best(limits, ties=macs)
            assert found is not None
            assert found.score == pytest.approx(worth[fits].max(), abs=1e-9)
            equals = fits & (worth >= worth[fits].max() - 1e-9)
            assert choices_cost(MACRO, macs, found.choices) == of_all[equals].min()


def test_networks_that_leave_out_another_layer_are_looked_at_once() -> None:
    records = [
        {"space": "nasbench-macro", "layers": ["skip", "mb3_k3", "mb6_k5", *later, "skip", "mb3_k3", "skip"]}
        for later in (["skip", "mb3_k3"], ["mb3_k3", "skip"], ["mb3_k3", "mb3_k3"])
    ]
    one, same, other = (without_idle(MACRO, genotype_from_record(record)) for record in records)
    assert one == same != other


def test_the_programme_chooses_the_depth_of_mobile() -> None:
    """With a point for every layer, the budget buys the cheapest layers first."""
    skeleton = Skeleton("mobile", cells=22, channels=32, resolution=96, classes=10)
    costs, scores = mac_costs(skeleton), even_scores(MOBILE)
    for kind in MOBILE.kinds:
        scores[kind.name][:, [operation != "skip" for operation in kind.operations]] = 1.0
    least, most = (costs.of(find(MOBILE, costs)) for find in (cheapest_genotype, costliest_genotype))
    cheapest = [costs.choices[kind.name][0, 1:].min() for kind in MOBILE.kinds if kind.operations[0] == "skip"]
    bought = np.cumsum(np.sort(cheapest))
    for share in (0.0, 0.05, 0.1, 0.3):
        limit = Limit("max_macs", costs, least + share * (most - least), "MACs")
        found = Programme(MOBILE, scores).best([limit], ties=costs)
        assert found is not None
        assert count_macs(skeleton, genotype_of(MOBILE, found.choices)) <= limit.at_most
        depth = sum(choice.operation != "skip" for choice in found.choices)
        assert depth == 7 + np.sum(bought <= share * (most - least))
    assert Programme(MOBILE, scores).best([Limit("max_macs", costs, least - 1, "MACs")]) is None
