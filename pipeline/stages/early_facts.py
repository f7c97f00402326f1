"""What the first epoch of a training lets one expect: the time left, and who will win where `compare` has run."""

from datetime import timedelta
from pathlib import Path

import numpy as np

from pipeline.artifacts.comparison import Comparison
from pipeline.console import say
from pipeline.errors import UserError
from pipeline.resumable.history import read_history
from pipeline.rivals.forecast import Curve, foresee
from pipeline.training.job import FirstEpoch


class EarlyFacts:
    """Says them once; nothing that is written depends on what is read here."""

    def __init__(self, comparison: Path | None = None) -> None:
        self._comparison = comparison

    def __call__(self, first: FirstEpoch) -> None:
        left = first.epochs - first.epoch
        took, rest = (timedelta(seconds=round(seconds)) for seconds in (first.seconds, left * first.seconds))
        say(f"epoch {first.epoch} of {first.epochs} took {took}; about {rest} left")
        told = self._foresee(first)
        if told:
            say(told)

    def _foresee(self, first: FirstEpoch) -> str | None:
        path = self._comparison
        if path is None or not path.is_file():
            return None
        try:
            comparison = Comparison.read(path)
        except UserError:
            return None  # of another version; `compare` itself will say so
        curves = {one.name: _curve(path.parent / one.name, comparison.seeds) for one in comparison.entrants}
        return foresee(comparison, curves, first.epoch, first.train_top1)


def _curve(folder: Path, seeds: list[int]) -> Curve:
    """Training accuracy by epoch, the mean over the seeds whose history is there, as far as all of them go."""
    curves = []
    for seed in seeds:
        entries = read_history(folder / f"seed{seed}" / "history.jsonl")
        curves.append([entry["train_top1"] for entry in entries if entry.get("train_top1") is not None])
    shortest = min(map(len, curves), default=0)
    return [float(np.mean([curve[epoch] for curve in curves])) for epoch in range(shortest)]
