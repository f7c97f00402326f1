"""Differences over seeds against scipy's Welch test, and the sentence for every outcome."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import ttest_ind

from pipeline.artifacts.comparison import Entrant
from pipeline.rivals.verdict import Trained, compare_all, compare_seeds, conclude, is_beyond_seeds


def entrant(name: str, kind: Any, accuracies: list[float], params: int = 100) -> Entrant:
    return Entrant(
        name=name, kind=kind, width=1.0, params=params, macs=10, measured_ms=1.0, training_s=1.0, accuracies=accuracies
    )


@pytest.mark.parametrize("counts", [(3, 3), (2, 5)])
def test_the_interval_is_that_of_welch(counts: tuple[int, int]) -> None:
    generator = np.random.default_rng(0)
    ours, theirs = (generator.normal(0.9, 0.01, count).tolist() for count in counts)
    found = compare_seeds("plain", ours, theirs)
    interval = ttest_ind(ours, theirs, equal_var=False).confidence_interval(0.95)
    assert found.mean == pytest.approx(np.mean(ours) - np.mean(theirs), abs=1e-12)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), abs=1e-10)


def test_one_seed_has_no_interval_and_equal_seeds_an_empty_one() -> None:
    single = compare_seeds("plain", [0.9], [0.8])
    assert (single.low, single.high) == (None, None) and not is_beyond_seeds(single)
    equal = compare_seeds("plain", [0.9, 0.9], [0.8, 0.8])
    assert equal.low == equal.mean == equal.high and is_beyond_seeds(equal)
    wide = compare_seeds("plain", [0.2, 0.4], [0.91, 0.95])
    assert wide.low == -1.0 and wide.high is not None and wide.high <= 1.0, "no difference is larger"


def sentence(ours: list[float], plain: list[float], random: list[float] | None = None, wanted: int = 4) -> str:
    entrants = [entrant("certified", "certified", ours), entrant("weak", "rival", [0.1] * len(plain))]
    entrants.append(entrant("plain", "rival", plain, params=70))
    entrants += [entrant("random", "random", random)] if random else []
    return conclude(entrants, compare_all(entrants), 500, Trained(4, wanted))


def test_the_sentence_says_who_wins_by_how_much_and_whether_it_counts() -> None:
    won = sentence([0.95, 0.951, 0.949], [0.90, 0.901, 0.899])
    assert won.startswith("After 4 epochs of every network, from the start: The certified network wins over plain")
    assert "95.00% against 90.00%, +5.00 points" in won
    assert "25 of 500 test images, more than seeds explain" in won
    lost = sentence([0.90, 0.901, 0.899], [0.95, 0.951, 0.949])
    assert "plain wins over the certified network: 90.00% against 95.00%, -5.00 points" in lost
    assert "Take plain" in lost
    even = sentence([0.91, 0.89, 0.92], [0.90, 0.93, 0.91])
    assert "no more than seeds explain. plain needs no search, so it is the better choice" in even
    assert "parameters against" not in even, "it is the smaller one"
    ahead = sentence([0.9], [0.8])
    assert "one seed cannot tell. The certified network is ahead; only more seeds" in ahead
    assert "better choice" not in ahead, "of a network that had the lower accuracy"


def test_a_comparison_after_few_of_the_epochs_says_that_it_tells_little() -> None:
    ours, plain = [0.95, 0.951, 0.949], [0.90, 0.901, 0.899]
    assert "says little" not in sentence(ours, plain, wanted=20)
    assert "So short a training says little about one of 21 epochs," in sentence(ours, plain, wanted=21)


def test_the_null_is_told_apart() -> None:
    ours, plain = [0.95, 0.951, 0.949], [0.90, 0.901, 0.899]
    assert "the search earned that" in sentence(ours, plain, [0.92, 0.921, 0.919])
    assert "which chance may explain" in sentence(ours, plain, [0.96, 0.90, 0.99])
    assert "worse than chance" in sentence(ours, plain, [0.99, 0.991, 0.989])
