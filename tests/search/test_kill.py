"""kill -9 at twenty random moments: the same command goes on and ends with the same bits."""

import multiprocessing
import random
import signal
import time
from pathlib import Path

import pytest

from pipeline.artifacts.alphas import Alphas
from pipeline.resumable.history import read_history
from pipeline.search.loop import SearchFiles, run_search
from pipeline.whole_files import sha256_of
from tests.search.problem import make_search

KILLS = 20


def search_to_the_end(folder: Path, run: Path) -> None:
    """What the search stage does, on the small problem, saving after every step."""
    import torch

    torch.set_num_threads(1)
    search = make_search(folder, epochs=6, seed=5)
    result = run_search(search, SearchFiles(run / "checkpoint", run / "history.jsonl", run / "board"), "same", 0.0)
    constraint = search.constraint
    found = Alphas(
        constraint.space, constraint.scale, tuple(result.alphas), constraint.prices, tuple(result.unpenalized)
    )
    found.write(run / "alphas.safetensors")


def saved_step(run: Path) -> int:
    """The step of the newest checkpoint; -1 before the first."""
    return max((int(path.name.split("-")[2]) for path in (run / "checkpoint").glob("*-step-*.pt")), default=-1)


@pytest.mark.slow
def test_killed_at_twenty_random_moments(tmp_path: Path) -> None:
    """Each kill comes a random moment after a random step was saved: between two steps, in one, or while saving."""
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["tests.search.test_kill"])
    chance, killed, resumed_from = random.Random(0), 0, []

    def attempt(run: Path, kill_after_step: int | None = None) -> int | None:
        process = server.Process(target=search_to_the_end, args=(tmp_path, run))
        process.start()
        if kill_after_step is not None:
            while process.is_alive() and saved_step(run) < kill_after_step:
                time.sleep(0.002)
            time.sleep(chance.uniform(0.0, 0.1))
            process.kill()
        process.join()
        return process.exitcode

    assert attempt(tmp_path / "whole") == 0
    expected = sha256_of(tmp_path / "whole" / "alphas.safetensors")
    while killed < KILLS:
        run = tmp_path / f"run-{killed}"
        for _ in range(4):
            killed += attempt(run, chance.randint(saved_step(run) + 1, 25)) == -signal.SIGKILL
            if saved_step(run) >= 24:
                break
        assert attempt(run) == 0
        assert sha256_of(run / "alphas.safetensors") == expected
        history = read_history(run / "history.jsonl")
        resumed_from += [entry["resumed_from_step"] for entry in history if "resumed_from_step" in entry]
    assert sum(step > 0 for step in resumed_from) > killed / 2, resumed_from
