"""The console script in this process, and a project to call it in."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from pipeline.cli import main
from tests.conftest import DARTS_V2_RECORD

ROOT = Path(__file__).parents[2]


class Done(NamedTuple):
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Done]


@pytest.fixture
def pipeline(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The console script in this process, which has torch loaded already."""

    def run(*arguments: str, cwd: Path) -> Done:
        monkeypatch.chdir(cwd)
        monkeypatch.setattr(sys, "argv", ["pipeline", *arguments])
        monkeypatch.setenv("COLUMNS", "200")
        with pytest.raises(SystemExit) as stop:
            main()
        return Done(int(stop.value.code or 0), *capsys.readouterr())

    return run


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pipeline.toml").write_text((ROOT / "pipeline.toml").read_text())
    (tmp_path / "genotype.json").write_text(json.dumps(DARTS_V2_RECORD))
    return tmp_path


def refused(done: Done, *parts: str, code: int = 2) -> None:
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    for part in parts:
        assert part in done.stderr
