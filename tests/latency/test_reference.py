"""The committed table, measured once on a real machine: files of users must stay readable, and mean the same."""

from pathlib import Path

import numpy as np
import pytest

from pipeline.artifacts.latency_table import LatencyTable
from pipeline.errors import UserError
from pipeline.latency.predictor import Predictor
from pipeline.latency.table import find_table
from pipeline.space.genotype import genotype_from_record
from pipeline.space.skeleton import Skeleton
from tests.latency.fakes import FINGERPRINT

PATH = Path(__file__).parents[2] / "latency_tables" / "reference__nasbench201.json"
SKELETON = Skeleton("nasbench201", cells=3, channels=4, resolution=8, classes=10, in_channels=1)


def test_its_networks_are_predicted_within_the_error_it_states() -> None:
    table = LatencyTable.read(PATH)
    predictor, entry = Predictor(table, SKELETON), table.column("fp32").entry(SKELETON)
    assert entry is not None and entry.validation is not None
    networks = entry.validation_networks
    predicted = np.array([predictor.predict(genotype_from_record(n.genotype)).ms for n in networks])
    errors = np.abs(predicted / np.array([n.p50_ms for n in networks]) - 1.0)
    assert errors.mean() == pytest.approx(entry.validation.mape, abs=1e-12)
    assert not entry.validation.passed, "it was made in seconds, and says that it misses the gate"


def test_it_is_refused_on_another_machine_with_the_difference_named() -> None:
    with pytest.raises(UserError, match="processor"):
        find_table(PATH.parent, FINGERPRINT, "nasbench201", PATH)
    assert find_table(PATH.parent, FINGERPRINT, "nasbench201", PATH, True).space == "nasbench201"
