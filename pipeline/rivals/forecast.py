"""Who will win, by what a finished comparison saw at the same epoch: an expectation, and when there is none."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pipeline.artifacts.comparison import Comparison, Entrant
from pipeline.console import counted
from pipeline.rivals.verdict import is_beyond_seeds

Curve = Sequence[float]  # training accuracy after each epoch, the mean over seeds


class Standing(NamedTuple):
    """A network at an epoch, and where it ended."""

    name: str
    then: float
    end: float

    def __str__(self) -> str:
        return f"{self.name} had {self.then:.1%} and ended at {self.end:.1%} on the test images"


def foresee(comparison: Comparison, curves: Mapping[str, Curve], epoch: int, train_top1: float) -> str | None:
    """A sentence on the best rival, if the comparison has curves of it and of our network up to this epoch.

    Our network is expected to end as it did there; that it is behind its own curve is said, not extrapolated.
    """
    rivals = [one for one in comparison.entrants if one.kind == "rival"]
    known = {one.name: one for one in comparison.entrants if len(curves.get(one.name, ())) >= epoch}
    if not rivals or comparison.entrants[0].name not in known:
        return None
    best = max(rivals, key=_mean)
    if best.name not in known:
        return None
    ours, theirs = (
        Standing(one.name, curves[one.name][epoch - 1], _mean(one)) for one in (comparison.entrants[0], best)
    )
    difference = next(row for row in comparison.differences if row.name == best.name)
    if not is_beyond_seeds(difference):
        verdict = "seeds decided more than the network there: nobody can tell who will win"
    elif difference.mean > 0:
        slow = "" if train_top1 >= theirs.then else f", though now it is behind where {best.name} was"
        verdict = f"this network is expected to win over {best.name}{slow}"
    else:
        verdict = f"{best.name} is expected to win"
    epochs = counted(comparison.epochs, "epoch")
    return (
        f"after epoch {epoch} it is right on {train_top1:.1%} of the training images; in `pipeline compare`, which "
        f"trained for {epochs}, {ours}, {theirs}: {verdict}"
    )


def _mean(one: Entrant) -> float:
    return float(np.mean(one.accuracies))
