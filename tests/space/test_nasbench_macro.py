"""NAS-Bench-Macro: every published row, where the data are beside the repository."""

import csv
from pathlib import Path

import numpy as np
import pytest

from pipeline.space.costs import mac_costs, param_costs
from pipeline.space.genotype import Genotype, genotype_from_record
from pipeline.space.plan import count_macs, count_params
from pipeline.space.skeleton import Skeleton

DATA = Path(__file__).parents[3] / "shared/data/nasbench_macro/accuracy_cifar10.csv"
SKELETON = Skeleton("nasbench-macro", cells=8, channels=32, resolution=32, classes=10)
DIGITS = ("skip", "mb3_k3", "mb6_k5")


def genotype_of(code: str) -> Genotype:
    return genotype_from_record({"space": "nasbench-macro", "layers": [DIGITS[int(digit)] for digit in code]})


def all_codes() -> list[str]:
    return [np.base_repr(number, 3).zfill(8) for number in range(3**8)]


@pytest.mark.parametrize(
    ("code", "params", "macs"),
    [("00000000", 387_882, 7_713_280), ("22212220", 1_985_514, 85_164_544), ("22222222", 2_932_586, 105_660_928)],
)
def test_published_rows(code: str, params: int, macs: int) -> None:
    assert count_params(SKELETON, genotype_of(code)) == params
    assert count_macs(SKELETON, genotype_of(code)) == macs


@pytest.mark.skipif(not DATA.exists(), reason="needs ../shared/data/nasbench_macro")
def test_all_published_rows() -> None:
    with DATA.open(newline="") as file:
        rows = {row["arch"]: (int(row["params"]), int(row["macs"])) for row in csv.DictReader(file)}
    assert sorted(rows) == sorted(all_codes())
    params, macs = param_costs(SKELETON), mac_costs(SKELETON)
    for code, counts in rows.items():
        genotype = genotype_of(code)
        assert (params.of(genotype), macs.of(genotype)) == counts, code


def test_distinct_networks() -> None:
    """The README of the data counts them: 2,592 codes repeat another network."""
    assert len({str(genotype_of(code).canonical().record()) for code in all_codes()}) == 3_969
