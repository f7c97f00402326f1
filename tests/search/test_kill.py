"""kill -9 at twenty random moments: the same command goes on and ends with the same bits."""

import multiprocessing
import random
import time
from pathlib import Path

import pytest

from pipeline.rundir import sha256_of
from pipeline.search.loop import SearchFiles, run_search
from pipeline.space.alphas import Alphas, write_alphas
from pipeline.training.history import read_history
from tests.search.problem import make_search

KILLS = 20


def search_to_the_end(folder: Path, run: Path) -> None:
    """What the search stage does, on the small problem, saving after every step."""
    import torch

    torch.set_num_threads(1)
    search = make_search(folder, epochs=6, seed=5)
    result = run_search(search, SearchFiles(run / "checkpoint", run / "history.jsonl", run / "board"), "same", 0.0)
    constraint = search.constraint
    write_alphas(
        run / "alphas.safetensors",
        Alphas(constraint.space, constraint.scale, tuple(result.alphas), constraint.prices),
    )


@pytest.mark.slow
def test_killed_at_twenty_random_moments(tmp_path: Path) -> None:
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["tests.search.test_kill"])

    def attempt(run: Path, seconds: float | None) -> int | None:
        process = server.Process(target=search_to_the_end, args=(tmp_path, run))
        process.start()
        process.join(seconds)
        process.kill()
        process.join()
        return process.exitcode

    attempt(tmp_path / "warm-up", None)
    start = time.monotonic()
    assert attempt(tmp_path / "whole", None) == 0
    whole_s, expected = time.monotonic() - start, sha256_of(tmp_path / "whole" / "alphas.safetensors")
    chance, killed, resumed_from = random.Random(0), 0, []
    for number in range(1000):
        run = tmp_path / f"run-{number}"
        for _ in range(4):
            if attempt(run, chance.uniform(0.1, 0.7) * whole_s) == 0:
                break
            killed += 1
        assert attempt(run, None) == 0
        assert sha256_of(run / "alphas.safetensors") == expected
        resumed_from += [
            e["resumed_from_step"] for e in read_history(run / "history.jsonl") if "resumed_from_step" in e
        ]
        if killed >= KILLS:
            break
    assert killed >= KILLS
    assert sum(step > 0 for step in resumed_from) > killed / 2, resumed_from
