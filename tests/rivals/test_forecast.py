"""Who is expected to win, by a comparison of which everything is known."""

import re
from pathlib import Path
from typing import Any

import pytest

from pipeline.artifacts.comparison import Comparison, Difference, Entrant
from pipeline.rivals.forecast import foresee
from pipeline.stages.early_facts import EarlyFacts
from pipeline.training.job import FirstEpoch
from pipeline.whole_files import write_text
from tests.latency.fakes import FINGERPRINT


def comparison(low: float, high: float, rivals: tuple[str, ...] = ("slow", "quick")) -> Comparison:
    """Ours against rivals, the best of which is quick."""
    ends = {"certified": 0.6, "slow": 0.4, "quick": 0.5, "random": 0.7}
    kinds: dict[str, Any] = {"certified": "certified", "random": "random"}
    entrants = [
        Entrant(name=name, kind=kinds.get(name, "rival"), width=None, params=1, macs=1, measured_ms=1.0, training_s=1.0,
                accuracies=[end - 0.01, end + 0.01])
        for name, end in ends.items()
        if name in ("certified", "random", *rivals)
    ]  # fmt: skip
    differences = [Difference(name=one.name, mean=(low + high) / 2, low=low, high=high) for one in entrants[1:]]
    return Comparison(
        percentile=50, budget_ms=1.0, noise_floor=0.0, device=FINGERPRINT, on_target=True, epochs=9, seeds=[0, 1],
        train_images=10, test_images=10, entrants=entrants, unmatched=[], differences=differences, sentence="",
    )  # fmt: skip


CURVES = {"certified": [0.3, 0.4], "quick": [0.25, 0.35], "slow": [0.1, 0.2]}


@pytest.mark.parametrize(
    ("low", "high", "now", "wanted"),
    [
        (0.05, 0.15, 0.31, "expected to win over quick$"),
        (0.05, 0.15, 0.2, "win over quick, though now it is behind where quick was$"),
        (-0.15, -0.05, 0.31, "quick is expected to win$"),
        (-0.05, 0.15, 0.31, "nobody can tell who will win$"),
    ],
)
def test_the_best_rival_decides(low: float, high: float, now: float, wanted: str) -> None:
    told = foresee(comparison(low, high), CURVES, 1, now)
    assert told is not None and re.search(wanted, told)
    assert "certified had 30.0% and ended at 60.0%" in told and "quick had 25.0% and ended at 50.0%" in told


def test_nothing_is_made_up() -> None:
    good = comparison(0.05, 0.15)
    assert foresee(good, CURVES, 3, 0.5) is None, "it did not train so long"
    assert foresee(good, {**CURVES, "quick": []}, 1, 0.5) is None
    assert foresee(good, {}, 1, 0.5) is None
    assert foresee(comparison(0.05, 0.15, rivals=()), CURVES, 1, 0.5) is None, "random networks are no rivals"


def test_time_left_and_the_winner_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "comparison.json"
    first = FirstEpoch(epoch=2, epochs=5, seconds=60.0, train_top1=0.41)
    EarlyFacts(path)(first)
    assert capsys.readouterr().err == "epoch 2 of 5 took 0:01:00; about 0:03:00 left\n", "compare has not run"
    comparison(0.05, 0.15).write(path)
    for name, curve in CURVES.items():
        for seed, shift in ((0, -0.1), (1, 0.1)):
            lines = [f'{{"step": {n}, "train_top1": {value + shift}}}' for n, value in enumerate(curve)]
            write_text(tmp_path / name / f"seed{seed}" / "history.jsonl", "\n".join(lines) + "\n")
    EarlyFacts(path)(first)
    told = capsys.readouterr().err
    assert "certified had 40.0% and ended at 60.0%" in told and "expected to win over quick" in told
    path.write_text("{")
    EarlyFacts(path)(first)
    assert "expected" not in capsys.readouterr().err
