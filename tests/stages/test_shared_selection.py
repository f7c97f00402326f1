"""A selection whose short trainings two processes share out, against one process that does them all."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pipeline.selection.trials import FEWEST_TRIALS
from pipeline.whole_files import read_json

ROOT = Path(__file__).parents[2]


def run_ranks(world: int, folder: Path) -> list[list[Any]]:
    """What each of so many processes trained; the run is in `folder`/run."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder.mkdir()
    processes = []
    for rank in range(world):
        launcher = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "MASTER_ADDR": "127.0.0.1"}
        environment = {**os.environ, **{name: str(value) for name, value in launcher.items()}, "MASTER_PORT": str(port)}
        command = [sys.executable, "-m", "tests.stages.worker", str(folder / "run"), str(folder)]
        processes.append(subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True))
    outputs = [process.communicate(timeout=240)[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * world, outputs
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(world)]


@pytest.mark.slow
def test_two_processes_share_the_trainings_and_choose_what_one_chooses(tmp_path: Path) -> None:
    (alone,) = run_ranks(1, tmp_path / "one")
    shares = run_ranks(2, tmp_path / "two")
    # the first training alone tells how many there will be; all others are done in pairs
    assert len(alone) == FEWEST_TRIALS and [len(share) for share in shares] == [5, 3]
    assert all(genotype in alone for share in shares for genotype in share)
    found = [tmp_path / name / "run/runs/test/discretize" for name in ("one", "two")]
    first, second = (
        [{**json.loads(line), "seconds": None} for line in (folder / "evidence.jsonl").read_text().splitlines()]
        for folder in found
    )
    assert first == second and len(first) == 1 + FEWEST_TRIALS
    for name in ("genotype.json", "certificate.json"):
        assert read_json(found[0] / name) == read_json(found[1] / name)
