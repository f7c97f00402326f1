"""Readers that are gone, closed or full: a real process, as only one has the streams of a shell."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("redirection", "codes"),
    [
        (">&-", {0}),
        ("2>&-", {0}),
        (">&- 2>&-", {0}),
        ("> /dev/full", {2}),
        ("| true", {0, 2}),
        ("> /dev/null 2> /dev/full", {0}),
    ],
)
def test_wherever_the_output_goes(redirection: str, codes: set[int], tmp_path: Path) -> None:
    """Help needs no torch, so that a process takes a second; what it prints is long enough to be buffered."""
    command = f"set -o pipefail; {sys.executable} -m pipeline retrain --help {redirection}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode in codes, done.stderr
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr
    assert not list(tmp_path.iterdir())
