"""A run as a command opens it: settings of the file, flags of earlier commands, flags of now."""

from pathlib import Path

import pytest

from pipeline.errors import UserError
from pipeline.runner.opening import open_run, remember_flags


def test_an_unknown_space_is_refused_before_anything_else(tmp_path: Path) -> None:
    (tmp_path / "pipeline.toml").write_text('[target]\nspace = "phones"\n')
    with pytest.raises(UserError, match=r"'phones'; known are .*mobile") as caught:
        open_run(tmp_path / "pipeline.toml", "run", {})
    assert caught.value.exit_code == 2


def test_a_flag_that_wins_over_an_edited_file_is_named_with_both_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "pipeline.toml"
    config.write_text("[target]\nbudget_ms = 9\n")
    remember_flags(open_run(config, "one", {"target": {"budget_ms": 5.0}}))
    config.write_text("[target]\nbudget_ms = 5\n")
    assert open_run(config, "one", {}).config.target.budget_ms == 5.0
    assert not capsys.readouterr().err, "both say the same"
    config.write_text("[target]\nbudget_ms = 7\n")
    assert open_run(config, "one", {}).config.target.budget_ms == 5.0
    said = capsys.readouterr().err
    assert "win over pipeline.toml: [target] budget_ms = 5.0 (not 7.0)" in said and "flags.json" in said
    assert open_run(config, "one", {"target": {"budget_ms": 6.0}}).config.target.budget_ms == 6.0
    assert not capsys.readouterr().err, "asked for now"


def test_flags_of_earlier_commands_are_kept_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "pipeline.toml"
    config.write_text("[target]\nbudget_ms = 9.0\n")
    open_run(config, "one", {"target": {"budget_ms": 7.0}})  # a command that comes to nothing
    assert not (tmp_path / "runs").exists()
    remember_flags(open_run(config, "one", {"target": {"budget_ms": 5.0}}))
    later = open_run(config, "one", {"target": {"percentile": 95}})
    assert (later.config.target.budget_ms, later.config.target.percentile) == (5.0, 95)
    assert "[target] budget_ms = 5.0" in capsys.readouterr().err
    assert open_run(config, "two", {}).config.target.budget_ms == 9.0


def test_a_budget_asked_for_now_beats_several_of_before(tmp_path: Path) -> None:
    config = tmp_path / "pipeline.toml"
    config.write_text("")
    remember_flags(open_run(config, "one", {"discretize": {"budgets_ms": [0.4, 0.7]}}))
    assert open_run(config, "one", {}).config.discretize.budgets_ms == [0.4, 0.7]
    asked = open_run(config, "one", {"target": {"budget_ms": 0.6}}).config
    assert (asked.target.budget_ms, asked.discretize.budgets_ms) == (0.6, [])
