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
