"""The benchmark on tables, by figures its data come with."""

import argparse
from pathlib import Path

import numpy as np
import pytest

from benchmarks.nasbench_macro import open_table
from benchmarks.tabular import SHARED, Contest, Way
from benchmarks.tabular_search import Labor
from pipeline.budget.limits import Limit
from pipeline.config import DataConfig
from pipeline.space.costs import mac_costs

DATA = SHARED / "nasbench_macro" / "accuracy_cifar10.csv"


@pytest.mark.skipif(not DATA.exists(), reason="needs ../shared/data/nasbench_macro")
def test_the_random_and_the_largest_network_of_nasbench_macro_have_the_published_regrets(tmp_path: Path) -> None:
    table = open_table(DATA)
    (device,) = table.devices
    limit = Limit("budget_ms", device.predictor.costs(), device.budgets_ms[4], "ms")
    labor = Labor(table.space, DataConfig(), 8, 8, 1.0, tmp_path, limit)
    contest = Contest(table, labor, argparse.Namespace(rounds=5))
    cases = [
        case
        for case in contest.select_everywhere(Way("size", mac_costs(table.target).choices))
        if case.device == "macs"
    ]
    assert len(cases) == 9
    assert len(table.networks) == 3969
    assert np.mean([case.random_regret for case in cases]) == pytest.approx(3.74, abs=0.005)
    # multiply-adds as scores: the programme finds one of the largest networks that fit, the published choice too (1.69)
    largest = np.mean([case.biggest_regret for case in cases])
    assert np.mean([case.regret for case in cases]) == pytest.approx(largest, abs=0.25)
    assert largest == pytest.approx(1.69, abs=0.15)
    assert not any(case.over for case in cases)
