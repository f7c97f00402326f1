"""`pipeline retrain --learn … --audit` as it is typed: what it refuses with which exit code, and what it leaves."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from pipeline.autodo_config import AutodoConfig
from pipeline.cli import main
from pipeline.config_file import render_config
from pipeline.rundir import RunDir
from tests.stages.test_retrain import choose, make_context


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDir:
    """A run whose network was chosen by a test, and a guide of one image per class that is no digit."""
    context = choose(make_context(tmp_path, auxiliary=0.0, drop_path=0.0))
    autodo = AutodoConfig(start_epoch=1, batch_size=64)
    (tmp_path / "pipeline.toml").write_text(render_config(context.config.model_copy(update={"autodo": autodo})))
    pixels = np.random.default_rng(0).integers(0, 255, (10, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "checked.npz", x_train=pixels, y_train=np.arange(10))
    np.savez(tmp_path / "nine.npz", x_train=pixels[:9], y_train=np.arange(9))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pipeline.runner.execution.check_inputs", lambda *_: {})
    return context.run


def call(monkeypatch: pytest.MonkeyPatch, *flags: str) -> int:
    monkeypatch.setattr(sys, "argv", ["pipeline", "retrain", "--run", "demo", *flags])
    monkeypatch.setenv("COLUMNS", "300")
    with pytest.raises(SystemExit) as stop:
        main()
    return int(stop.value.code or 0)


LEARN = ("--learn", "weights+labels")


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--audit",), "choose it with --learn weights+labels"),
        (("--learn", "labels"), "learn"),
        ((*LEARN, "--audit"), "neither of [autodo] guide and guide_share"),
        ((*LEARN, "--guide", "checked.npz", "--guide-share", "0.1"), "both of [autodo] guide and guide_share"),
        ((*LEARN, "--guide", "nowhere"), "there is no"),
        ((*LEARN, "--guide", "nine.npz"), "the guide has no image of the class '9'"),
        ((*LEARN, "--guide", "checked.npz", "--epochs", "1"), "start_epoch = 1 leaves nothing of 1 epochs"),
    ],
)
def test_mistakes_end_with_a_sentence_and_exit_code_2(
    run: RunDir,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    flags: tuple[str, ...],
    sentence: str,
) -> None:
    assert call(monkeypatch, *flags) == 2
    said = capsys.readouterr().err
    assert sentence in said and "Traceback" not in said
    assert not run.suspects.exists()


def test_an_audit_with_a_guide_of_its_own_lists_suspects(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    assert call(monkeypatch, *LEARN, "--guide", "checked.npz", "--audit") == 0
    found = json.loads(run.suspects.read_text())
    assert set(found["suspects"][0]) == {"index", "file", "label", "proposed_label", "weight", "early_loss"}
    assert found["guide_accuracy"] <= 1.0 and run.suspect_sheet.is_file() and not run.weights.exists()
