import json
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.artifacts.network import ChosenNetwork
from pipeline.config import Config, ProfileConfig, TargetConfig
from pipeline.latency.measure import Effort
from pipeline.latency.predictor import Predictor
from pipeline.latency.table import table_name
from pipeline.latency.target import TargetMachine
from pipeline.report.inspection import Inspection, Size, inspect_file
from pipeline.space.genotype import Genotype
from pipeline.space.skeleton import Skeleton
from pipeline.whole_files import write_json
from tests.latency.fakes import CALL_MS, FINGERPRINT, PARAMETER_MS, FakeDevice
from tests.latency.made import SKELETON, made_table

SIZE = Size(SKELETON.cells, SKELETON.channels, SKELETON.resolution, SKELETON.classes, SKELETON.in_channels)


def test_counts_without_a_table_or_a_device(darts_v2: Genotype) -> None:
    """The published counts of the DARTS paper's network."""
    record = Inspection(Skeleton("darts", 20, 36, 32, 10), darts_v2).record()
    assert (record["params"], record["macs"]) == (3_349_342, 528_359_040)
    assert record["predicted_ms"] is None and record["measured_ms"] is None and record["noise_floor"] is None
    assert (record["space"], record["cells"], record["channels"]) == ("darts", 20, 36)
    assert (record["resolution"], record["classes"]) == (32, 10)


def test_a_file_that_states_its_skeleton_is_inspected_in_it(darts_v2: Genotype, tmp_path: Path) -> None:
    path = tmp_path / "genotype.json"
    ChosenNetwork(genotype=darts_v2, skeleton=SKELETON).write(path)
    assert inspect_file(path, Size(), Config(), tmp_path, measure=False).skeleton == SKELETON
    asked = inspect_file(path, Size(cells=8), Config(), tmp_path, measure=False).skeleton
    assert asked == replace(SKELETON, cells=8), "what is asked for comes first"
    write_json(path, darts_v2.record())
    assert inspect_file(path, Size(), Config(), tmp_path, measure=False).skeleton != SKELETON


def test_predicted_and_measured(darts_v2: Genotype, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made_table(noise=0.02)
    table.write(tmp_path / "latency_tables" / table_name(FINGERPRINT, "darts"))
    write_json(tmp_path / "genotype.json", darts_v2.record())
    machine = TargetMachine(FakeDevice(), effort=Effort(rounds=8, calls=2))
    monkeypatch.setattr(TargetMachine, "of", lambda *_: machine)
    record = inspect_file(tmp_path / "genotype.json", SIZE, Config(), tmp_path, measure=True).record()
    assert record["measured_ms"]["p50"] == pytest.approx(CALL_MS + PARAMETER_MS * record["params"])
    assert record["measured_ms"].keys() == {"p50", "p95", "p99", "raw_p50"}
    assert record["predicted_ms"] == Predictor(table, SKELETON).predict(darts_v2).ms
    low, high = record["predicted_interval_ms"]
    assert low < record["predicted_ms"] < high
    assert record["noise_floor"] == 0.0
    json.dumps(record)


def test_the_machine_is_the_one_that_the_project_deploys_on(
    darts_v2: Genotype, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []

    def open_fake(*arguments: object) -> FakeDevice:
        opened.append(arguments)
        return FakeDevice()

    monkeypatch.setattr("pipeline.latency.target.open_device", open_fake)
    write_json(tmp_path / "genotype.json", darts_v2.record())
    target = TargetConfig(device="cuda:1", threads=2, batch=4)
    config = Config(target=target, profile=ProfileConfig(backend="torch"))
    inspect_file(tmp_path / "genotype.json", SIZE, config, tmp_path, measure=False)
    assert opened == [("cuda:1", 2, 4, "torch")]
