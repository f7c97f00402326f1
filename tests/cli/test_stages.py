"""Commands of stages: the one that follows, the one that is missing before it, and kits."""

from pathlib import Path

import pytest

from tests.cli.conftest import Run, refused


@pytest.mark.parametrize(
    ("arguments", "following"),
    [
        (["profile"], "next: pipeline search --budget-ms X --dry-run"),
        (["search", "--run", "one"], "next: pipeline discretize --run one"),
        (["discretize"], "next: pipeline retrain"),
        (["discretize", "--from-kit", "kit_result.json"], "next: pipeline retrain"),
        (["retrain", "--yes"], "next: pipeline export"),
    ],
)
def test_every_stage_names_the_next_command(
    pipeline: Run, project: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], following: str
) -> None:
    for name in ("run_stage", "run_otherwise"):
        monkeypatch.setattr(f"pipeline.runner.execution.{name}", lambda *_: None)
    done = pipeline(*arguments, cwd=project)
    assert done.returncode == 0 and done.stderr.splitlines()[-1] == following


@pytest.mark.parametrize(
    ("command", "maker"), [("discretize", "profile"), ("retrain", "discretize"), ("export", "discretize")]
)
def test_a_missing_input_names_the_command_that_makes_it(
    pipeline: Run, project: Path, command: str, maker: str
) -> None:
    refused(pipeline(command, cwd=project), f"`pipeline {maker}`")


@pytest.mark.parametrize(
    "command",
    ["retrain", "export", "inspect", "report", "compare", "export --budget-ms 2", "report --budget-ms 2"],
)
def test_a_misspelt_run_is_told_from_one_that_is_not_so_far(pipeline: Run, project: Path, command: str) -> None:
    (project / "runs" / "default").mkdir(parents=True)
    refused(pipeline(*command.split(), "--run", "defalt", cwd=project), "there is no run 'defalt'; there are: default")
    assert not (project / "runs" / "defalt").exists()


def test_a_kit_is_written_or_read_and_a_budget_must_have_a_network(pipeline: Run, project: Path) -> None:
    for command in ("profile", "discretize", "export"):
        both = ["--write-kit", "kit", "--from-kit", "kit_result.json"]
        refused(pipeline(command, *both, cwd=project), "either --write-kit DIR or --from-kit FILE")
    for command in ("retrain", "export"):
        refused(pipeline(command, "--budget-ms", "7", cwd=project), "no network was chosen for 7 ms")
    assert not (project / "runs").exists()
