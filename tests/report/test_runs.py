"""`pipeline list` and the table of `pipeline compare`, for people and for programs."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.artifacts.document import Percentiles
from pipeline.artifacts.stage_record import StageRecord
from pipeline.console import console
from pipeline.report.comparison import print_comparison
from pipeline.report.page import write_report
from pipeline.report.runs import describe_runs, print_runs
from pipeline.resumable.checkpoint import hash_state
from pipeline.rundir import RunDir
from pipeline.whole_files import write_json, write_text
from tests.artifacts.made import made_card, made_comparison
from tests.report.made_run import add_budgets, made_run


def test_runs_are_listed_with_their_state_and_figures(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    RunDir(tmp_path, "begun").root.mkdir()
    (tmp_path / "runs" / "no name").mkdir()
    broken = RunDir(tmp_path, "broken")
    broken.metrics.parent.mkdir(parents=True)
    broken.metrics.write_text("{")
    begun, damaged, demo = describe_runs(tmp_path)
    assert (begun["run"], begun["state"], begun["test_accuracy"]) == ("begun", "started", None)
    assert damaged["state"] == "damaged" and "metrics.json is damaged" in damaged["damaged"][0]
    assert (demo["state"], demo["budget_ms"], demo["measured_ms"], demo["percentile"]) == ("exported", 1.0, 0.9, 50)
    assert demo["test_accuracy"] == 0.9 and demo["space"] == "nasbench201" and not demo["running"]
    with run.locked():
        assert describe_runs(tmp_path)[2]["running"]


def test_a_run_under_way_is_listed_with_the_budget_of_its_flags(tmp_path: Path) -> None:
    run = RunDir(tmp_path, "new")
    write_text(run.config, "[target]\nbudget_ms = 2.0\n")
    assert describe_runs(tmp_path)[0]["budget_ms"] == 2.0
    write_json(run.flags, {"target": {"budget_ms": 1.5}})
    assert describe_runs(tmp_path)[0]["budget_ms"] == 1.5


def test_saved_work_of_a_stage_that_was_stopped_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "width", 120)
    run, begun = made_run(tmp_path), RunDir(tmp_path, "begun")
    add_budgets(run)
    write_text(begun.checkpoints("search") / "history.jsonl", "")
    assert [one["under_way"] for one in describe_runs(tmp_path)] == [None, None], "nothing to go on from"
    write_text(begun.checkpoints("search") / "000001-step-2-ab.pt", "state")
    write_text(replace(run, budget="0.25ms").checkpoints("retrain") / "epoch" / "000001-step-2-ab.pt", "state")
    first, demo = records = describe_runs(tmp_path)
    assert (first["state"], first["under_way"], demo["under_way"]) == ("started", "search", None)
    assert [one["under_way"] for one in demo["other_budgets"]] == ["retrain", None]
    print_runs(records, as_json=False)
    shown = " ".join(capsys.readouterr().err.split())
    assert "started, search interrupted" in shown and "certified, retrain interrupted" in shown
    with begun.locked():
        print_runs(describe_runs(tmp_path), as_json=False)
    shown = " ".join(capsys.readouterr().err.split())
    assert "started, running" in shown and "search interrupted" not in shown


def test_state_that_a_finished_stage_left_is_no_interruption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed after its record was written, before its state had gone; what was saved since is work of its own."""
    run = RunDir(tmp_path, "done")
    checkpoints = run.checkpoints("search")
    write_text(checkpoints / "000001-step-2-ab.pt", "state")
    done = StageRecord(stage="search", finished="", settings={}, inputs={}, outputs={}, state=hash_state(checkpoints))
    done.write(run.record("search"))
    assert describe_runs(tmp_path)[0]["under_way"] is None
    write_text(checkpoints / "000002-step-4-cd.pt", "state")
    assert describe_runs(tmp_path)[0]["under_way"] == "search"

    def vanish(_: Path) -> str:
        raise FileNotFoundError("as its stage drops the older of its states")

    monkeypatch.setattr("pipeline.report.runs.hash_state", vanish)
    assert describe_runs(tmp_path)[0]["under_way"] == "search"


def test_networks_of_other_budgets_are_listed_with_what_became_of_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_budgets(made_run(tmp_path))
    (demo,) = describe_runs(tmp_path)
    found = [(one["budget_ms"], one["state"], one["test_accuracy"]) for one in demo["other_budgets"]]
    assert found == [(0.25, "certified", None), (0.5, "trained", 0.75)]
    print_runs([demo], as_json=False)
    shown = capsys.readouterr().err
    assert "0.25 ms" in shown and "75.00%" in shown and "90.00%" in shown


def test_every_exported_network_is_listed_with_the_latency_of_its_file(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    add_budgets(run)
    before_ms = [one["measured_ms"] for one in describe_runs(tmp_path)[0]["other_budgets"]]
    file_ms = Percentiles(p50=0.44, p95=0.5, p99=0.6)
    made_card(budget_ms=0.5, measured_ms=file_ms).write(replace(run, budget="0.5ms").model_card)
    (demo,) = describe_runs(tmp_path)
    found = [(one["state"], one["measured_ms"]) for one in demo["other_budgets"]]
    assert found == [("certified", before_ms[0]), ("exported", 0.44)] and before_ms[1] == 0.45


def test_the_list_is_one_json_object_or_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    print_runs(describe_runs(tmp_path), as_json=True)
    assert json.loads(capsys.readouterr().out) == {"runs": []}
    made_run(tmp_path)
    print_runs(describe_runs(tmp_path), as_json=True)
    assert json.loads(capsys.readouterr().out)["runs"][0]["run"] == "demo"
    print_runs(describe_runs(tmp_path), as_json=False)
    shown = capsys.readouterr()
    assert shown.out == "" and "exported" in shown.err and "0.9 ms" in shown.err
    assert "pages: " not in shown.err, "there is none yet"


@pytest.mark.parametrize("what", ["runs", "comparison"])
def test_no_figure_is_broken_over_lines_in_a_narrow_terminal(
    tmp_path: Path, what: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "width", 80)
    if what == "runs":
        run = made_run(tmp_path)
        write_report(run, tmp_path / "pipeline.toml")
        print_runs(describe_runs(tmp_path), as_json=False)
        wanted = ["nasbench201", "1 ms", "90.00%", "0.9 ms (p50)", "runs/demo/report.html"]
    else:
        found = made_comparison()
        ours = found.entrants[0].model_copy(
            update={"name": "mobilenetv4_conv_small", "width": 0.35, "params": 1_234_567, "macs": 123_450_000}
        )
        print_comparison(found.model_copy(update={"entrants": [ours, *found.entrants[1:]]}), as_json=False)
        wanted = ["1,234,567", "123.45", "0.35", "92.50%", f"{max(ours.accuracies):.1%}"]
    shown = capsys.readouterr().err
    assert all(figure in shown for figure in wanted), shown
    assert all(len(line.rstrip()) <= 80 for line in shown.splitlines() if not line.startswith("pages"))


def test_a_comparison_is_one_json_object_or_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    print_comparison(made_comparison(), as_json=True)
    assert json.loads(capsys.readouterr().out)["sentence"] == "ours is ahead"
    print_comparison(made_comparison(), as_json=False)
    shown = capsys.readouterr().err
    assert "92.50%" in shown and "left out" in shown and "ours is ahead" in shown
