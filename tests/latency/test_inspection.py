import json

import pytest

from pipeline.latency.inspection import inspect_genotype
from pipeline.latency.measure import Effort
from pipeline.latency.predictor import Predictor
from pipeline.space.genotype import Genotype
from pipeline.space.skeleton import Skeleton
from tests.latency.fakes import CALL_MS, PARAMETER_MS, FakeDevice
from tests.latency.made import SKELETON, made_table


def test_counts_without_a_table_or_a_device(darts_v2: Genotype) -> None:
    """The published counts of the DARTS paper's network."""
    record = inspect_genotype(Skeleton("darts", 20, 36, 32, 10), darts_v2).record()
    assert (record["params"], record["macs"]) == (3_349_342, 528_359_040)
    assert record["predicted_ms"] is None and record["measured_ms"] is None and record["noise_floor"] is None
    assert (record["space"], record["cells"], record["channels"]) == ("darts", 20, 36)
    assert (record["resolution"], record["classes"]) == (32, 10)


def test_predicted_and_measured(darts_v2: Genotype) -> None:
    predictor = Predictor(made_table(noise=0.02), SKELETON)
    found = inspect_genotype(SKELETON, darts_v2, predictor, FakeDevice(), Effort(rounds=8, calls=2))
    record = found.record()
    assert record["measured_ms"]["p50"] == pytest.approx(CALL_MS + PARAMETER_MS * record["params"])
    assert record["measured_ms"].keys() == {"p50", "p95", "p99"}
    assert record["predicted_ms"] == predictor.predict(darts_v2).ms
    low, high = record["predicted_interval_ms"]
    assert low < record["predicted_ms"] < high
    assert record["noise_floor"] == 0.0
    json.dumps(record)
