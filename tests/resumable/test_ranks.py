"""Two processes against one that does the work of both."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from pipeline.autodo_config import Learn
from pipeline.bilevel import Neumann, hypergradient
from pipeline.errors import UserError
from pipeline.resumable import ranks as distributed
from pipeline.space.network import Network
from pipeline.training.loop import train
from pipeline.training.step import model_of, plain_model
from tests.training.material import autodo_job, make_job, make_mlp, make_network, taught_job
from tests.training.worker import TAUGHT, losses

ROOT = Path(__file__).parents[2]


def start(case: str, folder: Path, rank: int = 0, world: int = 1, port: int = 0) -> subprocess.Popen[str]:
    launcher = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return subprocess.Popen(
        [sys.executable, "-m", "tests.training.worker", case, str(folder)],
        cwd=ROOT,
        env={**os.environ, **{name: str(value) for name, value in launcher.items()}},
        stderr=subprocess.PIPE,
        text=True,
    )


def run_two(case: str, folder: Path) -> list[tuple[int, str]]:
    """Exit code and stderr of two ranks."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = [start(case, folder, rank, 2, port) for rank in range(2)]
    outputs = [process.communicate(timeout=240)[1] for process in processes]
    return [(process.returncode, output) for process, output in zip(processes, outputs, strict=True)]


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The traces of two ranks that averaged and trained."""
    folder = tmp_path_factory.mktemp("ranks")
    assert [code for code, _ in run_two("both", folder)] == [0, 0]
    return folder


def train_alone(folder: Path) -> Network:
    """One process that computes the two halves of every batch one after the other."""
    network = make_network()
    train(model_of(network), make_job(folder, epochs=2, mixup=0.2, augment="none", accumulate=2))
    return network


def assert_equal_weights(folder: Path, network: Network) -> None:
    first, second = (load_file(folder / f"rank{rank}.safetensors") for rank in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)
    for name, parameter in network.named_parameters():
        assert torch.equal(first[name], parameter), name


def test_averages_are_the_same_on_all_ranks(two_ranks: Path) -> None:
    first, second = (json.loads((two_ranks / f"{rank}.json").read_text()) for rank in range(2))
    assert {**first, "shared": None} == {**second, "shared": None}
    assert first["mean"] == [[[0.5, 0.5], [0.5, 0.5]], [1.0]]


def test_work_is_shared_out_in_rounds_and_comes_back_in_order(two_ranks: Path) -> None:
    first, second = (json.loads((two_ranks / f"{rank}.json").read_text())["shared"] for rank in range(2))
    assert first == ["a by 0", "b by 1", "c by 0"] and second == ["b by 1"]


def test_averaging_every_product_gives_the_hypergradient_of_the_mean_losses(two_ranks: Path) -> None:
    both = [losses(rank) for rank in range(2)]
    w, alpha = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    wanted = hypergradient(
        lambda w, a: torch.stack([inner(w, a) for inner, _ in both]).mean(),
        lambda w, a: torch.stack([outer(w, a) for _, outer in both]).mean(),
        [w],
        [alpha],
        Neumann(0.1, 3),
    )
    found = json.loads((two_ranks / "0.json").read_text())["hypergradient"]
    assert np.allclose(found, wanted[0].tolist(), rtol=1e-5)


def test_two_ranks_equal_one_process_with_two_half_batches(two_ranks: Path, tmp_path: Path) -> None:
    """Each half has its own BatchNorm statistics, and gradients are averaged: the same weights to the bit."""
    assert_equal_weights(two_ranks, train_alone(tmp_path))
    history = (two_ranks / "history.jsonl").read_text().splitlines()
    assert sum("train_loss" in line for line in history) == 2  # one writer


def test_two_ranks_learn_about_images_what_one_process_does(tmp_path: Path) -> None:
    """λ is the same on both ranks to the bit, and one process with two parts a batch finds it up to rounding."""
    assert [code for code, _ in run_two("autodo", tmp_path)] == [0, 0]
    first, second = (load_file(tmp_path / f"rank{rank}.safetensors") for rank in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)
    learn: Learn = "weights+labels+augmentation"
    job = autodo_job(tmp_path / "alone", flipped=40, learn=learn, epochs=3, augment="none", accumulate=2)
    alone = train(plain_model(make_mlp()), job).learned
    assert alone is not None and alone.labels is not None and alone.augmentation is not None
    assert float((alone.weights - 1).abs().max()) > 0.05 and float(alone.augmentation.std(0).min()) > 0.01
    wanted = {"weights": alone.weights, "labels": alone.labels, "augmentation": alone.augmentation}
    for name, value in {**wanted, "early": alone.early_losses}.items():
        assert torch.allclose(first[name], value, rtol=1e-4, atol=1e-4), name


def test_two_ranks_learn_from_a_teacher_what_one_process_does(tmp_path: Path) -> None:
    """To the bit, whether the teacher is asked at every step or the ranks have shared out its answers."""
    assert [code for code, _ in run_two("taught", tmp_path)] == [0, 0]
    for name, settings in TAUGHT.items():
        network = make_network()
        train(model_of(network), taught_job(tmp_path / "alone" / name, accumulate=2, **settings))
        first, second = (load_file(tmp_path / f"{name}{rank}.safetensors") for rank in range(2))
        assert all(torch.equal(first[key], second[key]) for key in first)
        assert all(torch.equal(first[key], value) for key, value in network.named_parameters()), name


def test_a_batch_that_does_not_divide_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "world", lambda: distributed.World(1, 3))
    assert distributed.share_of(96) == 32
    with pytest.raises(UserError, match="use 99"):
        distributed.share_of(100)


@pytest.mark.slow
def test_a_rank_that_dies_ends_the_job_with_a_sentence_and_it_resumes(tmp_path: Path) -> None:
    (code, output), (dead, _) = run_two("death", tmp_path)
    assert dead == 9 and code == 130
    assert "another process of this job died" in output and "run the same command" in output
    assert "Traceback" not in output
    assert [code for code, _ in run_two("death", tmp_path)] == [0, 0]
    assert '{"step": 5, "event": "resumed"}' in (tmp_path / "history.jsonl").read_text()
    assert_equal_weights(tmp_path, train_alone(tmp_path / "alone"))


@pytest.mark.slow
def test_killed_at_random_points_it_ends_with_the_same_bytes(tmp_path: Path) -> None:
    """kill -9 twenty times, a random number of checkpoints and milliseconds into each attempt."""
    start("slowly", tmp_path / "whole").communicate()
    random, folder, kills = np.random.default_rng(0), tmp_path / "killed", 0
    while kills < 20:
        process, seen = start("slowly", folder), saves_in(folder)
        target = seen + int(random.integers(1, 8))
        while process.poll() is None and saves_in(folder) < target:
            time.sleep(0.001)
        time.sleep(float(random.uniform(0, 0.1)))
        process.kill()
        process.communicate()
        kills += process.returncode == -signal.SIGKILL
        if (folder / "weights.safetensors").exists():
            assert_same_weights(tmp_path / "whole", folder)
            shutil.rmtree(folder)
    start("slowly", folder).communicate()
    assert_same_weights(tmp_path / "whole", folder)


def saves_in(folder: Path) -> int:
    """How many checkpoints were written there, as their serial numbers tell."""
    serials = [int(path.name[:6]) for path in (folder / "checkpoint").rglob("[0-9]*.pt")]
    return max(serials, default=0)


def assert_same_weights(whole: Path, resumed: Path) -> None:
    assert (whole / "weights.safetensors").read_bytes() == (resumed / "weights.safetensors").read_bytes()
