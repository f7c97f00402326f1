"""A training as a process of its own, for tests that start several or kill them."""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from pipeline.autodo_config import Learn
from pipeline.bilevel import Neumann, hypergradient
from pipeline.errors import PipelineError
from pipeline.resumable.ranks import assist, average, broadcast, joined, share_out, world
from pipeline.training import keeper
from pipeline.training.loop import copied, train
from pipeline.training.step import Model, Outputs, model_of, plain_model
from tests.training.material import CPU, autodo_job, make_job, make_mlp, make_network, taught_job


def run_average(folder: Path) -> None:
    """Averages of tensors of several types, and a hypergradient whose products are averaged."""
    rank = world().rank
    mean = average([torch.full((2, 2), float(rank)), torch.tensor([2.0 * rank], dtype=torch.float64)])
    w, alpha = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    found = hypergradient(*losses(rank), [w], [alpha], Neumann(0.1, 3), reduce=average)
    shared = _share_out(rank)
    record = {"shared": shared, "mean": [x.tolist() for x in mean], "hypergradient": found[0].tolist()}
    (folder / f"{rank}.json").write_text(json.dumps(record))


def _share_out(rank: int) -> list[str]:
    """Three items, each marked by the rank that worked on it; the other rank assists, and keeps what it did."""
    done: list[str] = []

    def work(item: str) -> str:
        done.append(f"{item} by {rank}")
        return done[-1]

    if rank:
        assist(work)
        return done
    found = list(share_out(work, ["a", "b", "c"]))
    broadcast(())  # no more
    return found


def losses(rank: int) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    """An inner and an outer loss of one rank, with different curvature on each."""
    a = torch.diag(torch.tensor([1.0, 2.0, 3.0])) + rank * torch.ones(3, 3)

    def inner(w: list[Tensor], alpha: list[Tensor]) -> Tensor:
        return 0.5 * (w[0] @ a @ w[0]) - (alpha[0] * (1 + rank)) @ w[0].square()

    def outer(w: list[Tensor], alpha: list[Tensor]) -> Tensor:
        return (w[0] - 2 - rank).square().sum()

    return inner, outer


def run_training(folder: Path) -> None:
    """A training; every rank saves the weights it ends with."""
    train_and_save(model_of(make_network()), folder)


def run_until_one_dies(folder: Path) -> None:
    """The same, but rank 1 is gone after six steps, the first time."""
    model, passes, marker = model_of(make_network()), [0], folder / "died"
    keeper._LARGEST_SHARE = 1e9

    def forward(x: Tensor) -> Outputs:
        passes[0] += 1
        if world().rank == 1 and passes[0] == 6 and not marker.exists():
            marker.touch()
            os._exit(9)
        return model.forward(x)

    train_and_save(replace(model, forward=forward), folder)


def train_and_save(model: Model, folder: Path) -> None:
    job = make_job(folder, epochs=2, mixup=0.2, augment="none", checkpoint_s=1e-9)
    outcome = train(model, job)
    save_file({name: x.contiguous() for name, x in outcome.last.items()}, folder / f"rank{world().rank}.safetensors")


def run_autodo(folder: Path) -> None:
    """A training that learns all about its images; every rank saves what it ends with."""
    learn: Learn = "weights+labels+augmentation"
    outcome = train(plain_model(make_mlp()), autodo_job(folder, flipped=40, learn=learn, epochs=3, augment="none"))
    learned = outcome.learned
    assert learned is not None and learned.labels is not None and learned.augmentation is not None
    found = {"weights": learned.weights, "labels": learned.labels, "early": learned.early_losses}
    found["augmentation"] = learned.augmentation
    save_file({**found, **copied(outcome.last)}, folder / f"rank{world().rank}.safetensors")


def run_taught(folder: Path) -> None:
    """Trainings with a teacher that is asked at every step, and with answers that are kept."""
    for name, settings in TAUGHT.items():
        outcome = train(model_of(make_network()), taught_job(folder / name, **settings))
        save_file(copied(outcome.last), folder / f"{name}{world().rank}.safetensors")


TAUGHT: dict[str, dict[str, Any]] = {
    "asked": {"epochs": 1, "mixup": 0.2, "augment": "none"},
    "cached": {"epochs": 1, "augment": "none", "images": 300},
}


def run_slowly(folder: Path) -> None:
    """A training that saves after every step, to be killed."""
    keeper._LARGEST_SHARE = 1e9
    outcome = train(model_of(make_network()), make_job(folder, epochs=8, mixup=0.2, checkpoint_s=1e-9))
    save_file({name: x.contiguous() for name, x in outcome.deployed.items()}, folder / "weights.safetensors")


def run_both(folder: Path) -> None:
    run_average(folder)
    run_training(folder)


CASES = {
    "both": run_both,
    "slowly": run_slowly,
    "death": run_until_one_dies,
    "autodo": run_autodo,
    "taught": run_taught,
}

if __name__ == "__main__":
    torch.set_num_threads(1)
    try:
        with joined(CPU):
            CASES[sys.argv[1]](Path(sys.argv[2]))
    except PipelineError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)
