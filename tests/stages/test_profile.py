"""The profile stage on a fake device: its files, sizes of the grid, and that a killed one goes on."""

import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.nasbench201_tables import SPACE, all_cells
from pipeline.artifacts.latency_table import LatencyTable
from pipeline.config_file import make_config
from pipeline.errors import UserError
from pipeline.latency.predictor import Predictor
from pipeline.latency.profiling import Profile
from pipeline.latency.table import table_name
from pipeline.latency.target import TargetMachine
from pipeline.rundir import RunDir
from pipeline.runner.execution import changes_since, run_stage
from pipeline.space.choices import choices_of, hears_input
from pipeline.stages import profile as stage
from pipeline.stages import stage_named
from pipeline.stages.context import Context
from pipeline.stages.tables import open_target, table_path
from tests.latency.fakes import FINGERPRINT, FakeDevice
from tests.latency.made import SKELETON, made_table

PROFILE = {"rounds": 2, "copies": 2, "calibration_networks": 4, "validate_networks": 3}
TARGET = {"space": "nasbench201", "cells": 1, "channels": 4}


def make_context(folder: Path, **sections: dict[str, Any]) -> Context:
    profile = {**PROFILE, **sections.pop("profile", {})}
    target = {**TARGET, **sections.pop("target", {})}
    return Context(make_config({"target": target, "profile": profile, **sections}, "the test"), RunDir(folder, "test"))


def test_a_table_and_its_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    context = make_context(tmp_path)
    stage.profile_on(context, FakeDevice())
    path = context.run.tables / table_name(FINGERPRINT, "nasbench201")
    predictor = Predictor(LatencyTable.read(path), context.target_skeleton)
    assert predictor.validation is not None and predictor.validation.networks == 3
    stem = path.with_suffix("").name
    assert {p.name for p in context.run.tables.iterdir()} == {
        path.name,
        f"{stem}__1x4@16px__fp32__costs.svg",
        f"{stem}__1x4@16px__fp32__predictions.svg",
    }
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "valid: on 3 other networks" in shown.err and "slowest sites" in shown.err
    times = [predictor.costs().of(one) for one in all_cells() if hears_input(SPACE, choices_of(SPACE, one))]
    said = re.search(r"1 cells × 4 channels take (\S+) to (\S+) ms \(predicted p50\)", " ".join(shown.err.split()))
    assert said is not None
    assert [float(one) for one in said.groups()] == pytest.approx([min(times), max(times)], rel=0.006)


@pytest.mark.parametrize(("precision", "is_told"), [("fp32", True), ("int8", False)])
def test_what_networks_take_is_told_at_the_precision_that_a_search_goes_by(
    precision: str, is_told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = made_table()
    table = made.model_copy(update={"precisions": {precision: made.column("fp32")}})
    stage._report(Profile(tmp_path / "table.json", table, table, replaced=True), (SKELETON,), 0.05)
    said = capsys.readouterr().err
    assert "latency table:" in said and ("(predicted p50)" in said) is is_told


def test_no_image_is_needed_where_the_classes_are_stated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stage as the runner runs it, on data that is not there."""
    monkeypatch.setattr("pipeline.stages.profile.open_target", lambda context: TargetMachine(FakeDevice()))
    monkeypatch.setattr("pipeline.stages.tables.open_target", lambda context: TargetMachine(FakeDevice()))
    absent = {"format": "folder", "path": "nowhere", "colour": True}
    with pytest.raises(UserError, match="nowhere"):
        run_stage(make_context(tmp_path, data=absent), stage_named("profile"))
    assert not (tmp_path / "latency_tables").exists()
    context = make_context(tmp_path, data={**absent, "classes": 7})
    run_stage(context, stage_named("profile"))
    (entry,) = LatencyTable.read(table_path(context)).column("fp32").skeletons
    assert (entry.skeleton["classes"], entry.skeleton["in_channels"]) == (7, 3)
    assert not context.run.splits.exists()


def test_every_size_of_the_grid_is_calibrated(tmp_path: Path) -> None:
    context = make_context(tmp_path, discretize={"channels_grid": [4, 8]}, profile={"validate_networks": 0})
    stage.profile_on(context, FakeDevice())
    table = LatencyTable.read(context.run.tables / table_name(FINGERPRINT, "nasbench201"))
    assert [entry.skeleton["channels"] for entry in table.column("fp32").skeletons] == [4, 8]
    assert all(entry.validation is None for entry in table.column("fp32").skeletons)


def test_why_a_table_will_not_do_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("profile", "tables"):
        monkeypatch.setattr(f"pipeline.stages.{place}.open_target", lambda _: TargetMachine(FakeDevice()))
    profile, context = stage_named("profile"), make_context(tmp_path)
    run_stage(context, profile)
    assert list(changes_since(context, profile)) == []

    def reason(context: Context) -> str:
        return list(changes_since(context, profile))[-1].partition(" (took")[0]

    wider = make_context(tmp_path, discretize={"channels_grid": [4, 8]})
    assert reason(wider) == "its table lacks networks that the settings ask for"
    table_path(context).write_text("{")
    assert reason(context) == "its table cannot be read"
    table_path(context).unlink()
    assert reason(context) == "its table is missing"


def test_a_kept_table_is_said_to_be_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    context = make_context(tmp_path)
    stage.profile_on(context, FakeDevice())
    stage.profile_on(make_context(tmp_path, profile={"validate_networks": 0}), FakeDevice())
    assert "which passed it, was kept" in capsys.readouterr().err.replace("\n", " ")


def test_int8_needs_onnxruntime(tmp_path: Path) -> None:
    context = make_context(tmp_path, profile={"precision": ["int8"]})
    with pytest.raises(UserError, match="onnxruntime only"):
        stage.profile_on(context, FakeDevice())
    assert not list(context.run.tables.glob("*.json"))


def test_a_device_that_is_not_there_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="threads"):
        stage.run(make_context(tmp_path, target={"threads": 9999}))
    assert not list(tmp_path.iterdir())


def test_the_kit_of_a_configuration_comes_back_as_its_table(tmp_path: Path) -> None:
    """Written, timed by the kit's own script, and read: only under the configuration that wrote it."""
    from pipeline.latency.kit_script import RESULT_FILE

    context = make_context(tmp_path, profile={"rounds": 1})
    stage.write_kit(context, tmp_path / "kit")
    assert (tmp_path / "kit" / "time_kit.py").is_file()
    with pytest.raises(UserError, match="cannot read"):
        stage.use_kit(context, tmp_path / "kit" / RESULT_FILE)
    assert not context.run.tables.exists()


def test_later_stages_look_for_the_table_of_the_backend_that_measured_it(tmp_path: Path) -> None:
    context = make_context(tmp_path, profile={"backend": "torch"})
    assert open_target(context).device.fingerprint.runtime == "torch"
    assert "torch" in table_path(context).name
    assert "onnxruntime" in table_path(make_context(tmp_path)).name
