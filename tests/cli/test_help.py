"""What the program says of itself: help that lists every command, and its version."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from pipeline.presets import PRESET_NAMES
from tests.cli.conftest import Run

COMMANDS = ("init", "check", "profile", "search", "discretize", "retrain", "export", "run", "inspect", "bench", "rank")


def test_help_needs_no_torch() -> None:
    code = "import sys; import pipeline.cli.commands; sys.exit('torch' in sys.modules or 'onnxruntime' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_help_lists_every_command(pipeline: Run, tmp_path: Path) -> None:
    done = pipeline("--help", cwd=tmp_path)
    assert done.returncode == 0
    for command in COMMANDS:
        assert f" {command} " in done.stdout


def test_without_a_command_there_is_help_and_no_error(pipeline: Run, tmp_path: Path) -> None:
    done = pipeline(cwd=tmp_path)
    assert done.returncode == 0 and "error" not in done.stderr
    assert done.stdout == pipeline("--help", cwd=tmp_path).stdout


def test_version(pipeline: Run, tmp_path: Path) -> None:
    done = pipeline("--version", cwd=tmp_path)
    assert done == (0, f"latency-pipeline {version('latency-pipeline')}\n", "")


def test_help_shows_flags_as_flags_sections_whole_and_every_preset(pipeline: Run, tmp_path: Path) -> None:
    for command in COMMANDS:
        assert "<bool>" not in pipeline(command, "--help", cwd=tmp_path).stdout
    assert "[export]" in pipeline("export", "--help", cwd=tmp_path).stdout
    help_of_init = " ".join(pipeline("init", "--help", cwd=tmp_path).stdout.split())
    assert ", ".join(PRESET_NAMES) in help_of_init
