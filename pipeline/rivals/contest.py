"""Training networks alike: once per seed, kept on disk as they are done, with what is left in sight."""

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from torch import nn

from pipeline.artifacts.comparison import Trial
from pipeline.console import say
from pipeline.data import ImageSet
from pipeline.errors import UserError
from pipeline.resumable.checkpoint import hash_of
from pipeline.training.job import Job
from pipeline.training.loop import train
from pipeline.training.measures import measure, predict
from pipeline.training.step import Model, plain_model, seed_all


class Contestant(NamedTuple):
    """A network by name; `build` makes it for a seed, `describe` is what its results depend on."""

    name: str
    build: Callable[[int], nn.Module]
    describe: Callable[[int], object]


@dataclass(frozen=True)
class Contest:
    """The conditions: a job without a seed or folder of its own, seeds, the test images, and where results go."""

    job: Job
    seeds: Sequence[int]
    test: ImageSet
    folder: Path

    def run(self, contestants: Sequence[Contestant]) -> dict[str, list[Trial]]:
        """Every network with every seed, seed by seed, so that an early stop leaves a fair comparison."""
        rounds = [(seed, contestant) for seed in self.seeds for contestant in contestants]
        trials: dict[str, list[Trial]] = {contestant.name: [] for contestant in contestants}
        clock = _Clock()
        for number, (seed, contestant) in enumerate(rounds):
            trial = self._known(contestant, seed)
            if trial is None:
                left = clock.left(len(rounds) - number)
                say(f"training {number + 1} of {len(rounds)}: {contestant.name}, seed {seed}{left}")
                with clock:
                    trial = self._train(contestant, seed)
            trials[contestant.name].append(trial)
        return trials

    def _place(self, contestant: Contestant, seed: int) -> Path:
        return self.folder / contestant.name / f"seed{seed}"

    def _identity(self, contestant: Contestant, seed: int) -> str:
        return hash_of([self.job.config_hash, seed, contestant.name, contestant.describe(seed)])

    def _known(self, contestant: Contestant, seed: int) -> Trial | None:
        """What an earlier process left, if it depends on the same things."""
        path = self._place(contestant, seed) / "result.json"
        try:
            trial = Trial.read(path) if path.exists() else None
        except UserError:
            return None
        return trial if trial is not None and trial.identity == self._identity(contestant, seed) else None

    def _train(self, contestant: Contestant, seed: int) -> Trial:
        folder, identity = self._place(contestant, seed), self._identity(contestant, seed)
        job = replace(
            self.job,
            seed=seed,
            config_hash=identity,
            checkpoints=_own_checkpoints(folder / "checkpoint", identity),
            history=folder / "history.jsonl",
            tensorboard=None,
        )
        model = self._make(contestant, seed)
        outcome = train(model, job)
        model.module.load_state_dict(outcome.deployed)
        accuracy = measure(predict(model.module, self.test, job.normalize, job.workers)).top1
        rates = [entry["images_per_s"] for entry in outcome.history if entry.get("images_per_s")]
        trial = Trial(
            identity=identity,
            accuracy=accuracy,
            training_s=sum(len(job.train) / images_per_s for images_per_s in rates),
        )
        trial.write(folder / "result.json")
        shutil.rmtree(folder / "checkpoint", ignore_errors=True)
        return trial

    def _make(self, contestant: Contestant, seed: int) -> Model:
        seed_all(seed)
        return plain_model(prepare(contestant.build(seed), self.job))


def _own_checkpoints(place: Path, identity: str) -> Path:
    """Where a training keeps its state; that of a training under other settings goes, as nothing can go on from it."""
    own = place / identity[:16]
    for other in place.glob("*"):
        if other != own:
            shutil.rmtree(other) if other.is_dir() else other.unlink()
    return own


def prepare(network: nn.Module, job: Job) -> nn.Module:
    """The network where and as the job trains it."""
    return network.to(job.device).to(memory_format=job.normalize.format)


class _Clock:
    """How long a training takes, and so how long the rest will."""

    def __init__(self) -> None:
        self._taken = list[float]()
        self._start = 0.0

    def __enter__(self) -> None:
        self._start = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self._taken.append(time.monotonic() - self._start)

    def left(self, trainings: int) -> str:
        if not self._taken:
            return ""
        seconds = trainings * sum(self._taken) / len(self._taken)
        return f"; about {timedelta(seconds=round(seconds))} left in all"
