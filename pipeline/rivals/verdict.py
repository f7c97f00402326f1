"""Who wins, by how much, and whether that is more than seeds explain."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import t as student

from pipeline.artifacts.comparison import Difference, Entrant
from pipeline.console import counted

_CONFIDENCE = 0.95
_SHORT = 0.2  # of the epochs of [retrain]


class Trained(NamedTuple):
    """Epochs that every network had, and those that [retrain] wants."""

    epochs: int
    wanted: int

    @property
    def is_short(self) -> bool:
        return self.epochs < _SHORT * self.wanted


def compare_seeds(name: str, ours: Sequence[float], theirs: Sequence[float]) -> Difference:
    """Welch's interval of the difference of two means, whose variances may differ; none from a single seed."""
    mean = float(np.mean(ours) - np.mean(theirs))
    if min(len(ours), len(theirs)) < 2:
        return Difference(name=name, mean=mean, low=None, high=None)
    parts = [float(np.var(own, ddof=1)) / len(own) for own in (ours, theirs)]
    variance = sum(parts)
    if variance == 0:
        return Difference(name=name, mean=mean, low=mean, high=mean)
    freedom = variance**2 / sum(p**2 / (len(own) - 1) for p, own in zip(parts, (ours, theirs), strict=True))
    half = float(student.ppf((1 + _CONFIDENCE) / 2, freedom)) * math.sqrt(variance)
    low, high = max(mean - half, -1.0), min(mean + half, 1.0)  # as far as accuracies can differ
    return Difference(name=name, mean=mean, low=low, high=high)


def compare_all(entrants: Sequence[Entrant]) -> list[Difference]:
    """The certified network, which comes first, against every other."""
    ours = entrants[0]
    return [compare_seeds(one.name, ours.accuracies, one.accuracies) for one in entrants[1:]]


def is_beyond_seeds(difference: Difference) -> bool:
    """Whether the interval leaves out zero."""
    return difference.low is not None and difference.high is not None and not difference.low <= 0 <= difference.high


def conclude(entrants: Sequence[Entrant], differences: Sequence[Difference], test_images: int, trained: Trained) -> str:
    """One plain sentence on the best rival, and one on random networks of the space, after how long a training."""
    ours = entrants[0]
    by_name = {row.name: row for row in differences}
    rivals = [one for one in entrants[1:] if one.kind == "rival"]
    null = next((one for one in entrants if one.kind == "random"), None)
    sentences = []
    if rivals:
        best = max(rivals, key=_mean)
        sentences.append(_conclude_pair(ours, best, by_name[best.name], test_images))
    if null is not None:
        sentences.append(_conclude_null(null, by_name[null.name]))
    if trained.is_short:
        sentences.append(
            f"So short a training says little about one of {trained.wanted} epochs, after which the order may be "
            "another (--minutes takes more)."
        )
    return " ".join([f"After {counted(trained.epochs, 'epoch')} of every network, from the start:", *sentences])


def _conclude_pair(ours: Entrant, best: Entrant, difference: Difference, test_images: int) -> str:
    figures = f"{_mean(ours):.2%} against {_mean(best):.2%}, {_show(difference)}, {_in_images(difference, test_images)}"
    if not is_beyond_seeds(difference):
        doubt = "one seed cannot tell" if difference.low is None else "no more than seeds explain"
        even = f"No winner between the certified network and {best.name}, the best rival: {figures}, {doubt}."
        if difference.mean > 0:
            return f"{even} The certified network is ahead; only more seeds (--seeds) or epochs tell whether by chance."
        size = f" unless its size ({best.params:,} parameters against {ours.params:,}) speaks against it"
        return f"{even} {best.name} needs no search, so it is the better choice{size * (best.params > ours.params)}."
    if difference.mean > 0:
        return f"The certified network wins over {best.name}, the best rival: {figures}, more than seeds explain."
    return (
        f"{best.name} wins over the certified network: {figures}, more than seeds explain. "
        f"Take {best.name}: at this latency and with this training the search was not worth it."
    )


def _conclude_null(null: Entrant, difference: Difference) -> str:
    random = f"random networks of the space that fit ({_mean(null):.2%})"
    if is_beyond_seeds(difference):
        verdict = "the search earned that" if difference.mean > 0 else "the search chose worse than chance"
    else:
        verdict = "which chance may explain"
    return f"Against {random} the certified network has {_show(difference)}: {verdict}."


def _show(difference: Difference) -> str:
    lead = f"{100 * difference.mean:+.2f} points"
    if difference.low is None or difference.high is None:
        return lead
    return f"{lead} (95 % interval {100 * difference.low:+.2f} … {100 * difference.high:+.2f})"


def _in_images(difference: Difference, test_images: int) -> str:
    return f"{abs(difference.mean) * test_images:.0f} of {test_images:,} test images"


def _mean(one: Entrant) -> float:
    return float(np.mean(one.accuracies))
