"""The log of a run: what was said while it worked, and nothing of a refusal."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipeline import console
from pipeline.errors import Interrupted, PromiseBroken
from pipeline.runner import execution
from pipeline.runner.execution import run_stage
from pipeline.runner.log import logged
from pipeline.stages.context import Context
from tests.runner.conftest import FIRST, Calls, context


def test_a_run_keeps_a_log_of_what_was_said_and_a_refusal_adds_nothing(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    console.take_spoken()
    monkeypatch.setattr(sys, "argv", ["pipeline", "search", "--run", "one"])
    run_stage(context(tmp_path), FIRST)
    log = context(tmp_path).run.log
    first = log.read_text()
    assert "pipeline search --run one" in first and "▶ search: not done yet" in first
    with logged(context(tmp_path).run, goes_on=True):
        console.say("its closing table")
    first = log.read_text()
    assert first.count("\n---") == 0 and first.endswith("its closing table\n")

    def refuse(_: Context) -> None:
        raise PromiseBroken("over budget")

    def stop(_: Context) -> None:
        raise Interrupted("interrupted: step 3 saved")

    for work, added in ((refuse, ""), (stop, "interrupted: step 3 saved")):
        monkeypatch.setattr(execution, "_module", lambda _, work=work: SimpleNamespace(run=work))
        with pytest.raises((PromiseBroken, Interrupted)):
            run_stage(context(tmp_path, epochs=3), FIRST)
        assert log.read_text().removeprefix(first).endswith(f"{added}\n" if added else "")
    assert "over budget" not in log.read_text()
