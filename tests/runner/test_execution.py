"""Which stages run: by content, never by time stamp."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipeline.artifacts.alphas import Alphas
from pipeline.artifacts.stage_record import StageRecord
from pipeline.errors import UserError
from pipeline.rundir import RunDir
from pipeline.runner import execution
from pipeline.runner.execution import run_all, run_stage
from pipeline.stages.context import Context
from pipeline.whole_files import read_json, sha256_of, write_text
from tests.runner.conftest import FIRST, Calls, context


def test_a_second_run_does_nothing_and_says_why(
    calls: Calls, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_all(context(tmp_path))
    assert calls == ["search", "retrain"]
    os.utime(context(tmp_path).run.alphas)
    capsys.readouterr()
    run_all(context(tmp_path))
    assert calls == ["search", "retrain"]
    assert capsys.readouterr().err.count("up to date") == 2


def test_a_changed_setting_runs_its_stage_and_what_reads_its_output(
    calls: Calls, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_all(context(tmp_path))
    run_all(context(tmp_path, epochs=3))
    assert calls == ["search", "retrain"] * 2
    told = capsys.readouterr().err
    assert "search.epochs changed from 12 to 3" in told and "the alphas changed" in told


def test_settings_without_effect_and_those_of_no_stage_change_nothing(calls: Calls, tmp_path: Path) -> None:
    run_all(context(tmp_path))
    config = context(tmp_path, checkpoint_s=1).config
    changed = {
        "compute": config.compute.model_copy(update={"workers": 3}),
        "retrain": config.retrain.model_copy(update={"checkpoint_s": 1.0}),
        "target": config.target.model_copy(update={"budget_ms": 99.0}),
    }
    run_all(Context(config.model_copy(update=changed), RunDir(tmp_path, "one")))
    assert calls == ["search", "retrain"]


@pytest.mark.parametrize("damage", ["altered", "missing"])
def test_a_damaged_output_is_made_again(
    calls: Calls, tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run_all(context(tmp_path))
    weights = context(tmp_path).run.weights
    weights.unlink() if damage == "missing" else weights.write_text("edited")
    run_all(context(tmp_path))
    assert calls == ["search", "retrain", "retrain"]
    assert f"its weights {'is missing' if damage == 'missing' else 'was altered'}" in capsys.readouterr().err


def test_the_same_output_again_does_not_run_what_follows(calls: Calls, tmp_path: Path) -> None:
    run_all(context(tmp_path))
    run_stage(context(tmp_path), FIRST, force=True)
    run_all(context(tmp_path))
    assert calls == ["search", "retrain", "search"]


def test_a_stage_by_itself_is_skipped_unless_forced(calls: Calls, tmp_path: Path) -> None:
    run_stage(context(tmp_path), FIRST)
    run_stage(context(tmp_path), FIRST)
    assert calls == ["search"]


def test_runs_share_nothing(calls: Calls, tmp_path: Path) -> None:
    run_all(context(tmp_path, "one"))
    run_all(context(tmp_path, "two", epochs=7))
    assert (context(tmp_path, "one").run.alphas.read_text(), context(tmp_path, "two").run.alphas.read_text()) == (
        "epochs 12",
        "epochs 7",
    )
    run_all(context(tmp_path, "one"))
    assert len(calls) == 4


def test_the_record_holds_hashes_and_the_run_its_configuration(calls: Calls, tmp_path: Path) -> None:
    run_all(context(tmp_path))
    run = context(tmp_path).run
    record = StageRecord.read(run.record("retrain"))
    assert record.inputs == {"alphas": sha256_of(run.alphas)} and record.outputs == {"weights": sha256_of(run.weights)}
    assert "[search]" in run.config.read_text() and read_json(run.environment)["packages"]["torch"]
    parts = read_json(run.splits)
    assert not set(parts["train"]["indices"]) & set(parts["test"]["indices"])


def test_a_redo_killed_after_it_replaced_an_output_is_done_again(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_all(context(tmp_path))

    def half(context: Context) -> None:
        write_text(context.run.alphas, "new")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(execution, "_module", lambda _: SimpleNamespace(run=half))
        with pytest.raises(KeyboardInterrupt):
            run_all(context(tmp_path, epochs=3))
    run_all(context(tmp_path))
    assert calls == ["search", "retrain", "search"]


def test_an_output_of_an_older_schema_is_made_again(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_all(context(tmp_path))
    monkeypatch.setattr(Alphas, "version", Alphas.version + 1)
    run_all(context(tmp_path))
    assert calls == ["search", "retrain", "search"]
    assert "its alphas is of another version" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"schema": 99}'])
def test_a_damaged_record_is_refused_and_made_anew_by_force(calls: Calls, tmp_path: Path, content: str) -> None:
    run_all(context(tmp_path))
    context(tmp_path).run.record("search").write_text(content)
    with pytest.raises(UserError, match=r"record.json is damaged.*`pipeline search --run one --force` again"):
        run_stage(context(tmp_path), FIRST)
    run_stage(context(tmp_path), FIRST, force=True)
    run_all(context(tmp_path))
    assert calls == ["search", "retrain", "search"]


def test_a_follower_computes_only_when_the_first_process_does(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a first process that finds all up to date, it would wait for ever."""
    run_all(context(tmp_path))
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    run_stage(context(tmp_path), FIRST)
    assert calls == ["search", "retrain"]
    run_stage(context(tmp_path, epochs=3), FIRST)
    run_stage(context(tmp_path), FIRST, force=True)
    assert calls == ["search", "retrain", "search", "search"]
