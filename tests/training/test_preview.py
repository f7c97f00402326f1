"""The cost of a training before it starts, against a clock that is told what steps and answers take."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pipeline.training.preview import preview_training
from pipeline.training.step import Stepper, plain_model
from tests.training.material import make_job, make_mlp, make_teacher

STEP_S, IMAGE_S, ASKED_S, ANSWER_S = 0.5, 0.01, 0.2, 0.03


class Costs:
    """A clock that steps and answers move: s + c·b seconds each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, scale: float = 1.0) -> None:
        self.now, step = 0.0, Stepper.step

        def timed(stepper: Stepper, batch: Any, number: int) -> Any:
            self.now += scale * (STEP_S + IMAGE_S * len(batch.images))
            return step(stepper, batch, number)

        monkeypatch.setattr(Stepper, "step", timed)
        self.scale = scale

    def answer(self, images: Tensor) -> Tensor:
        self.now += self.scale * (ASKED_S + ANSWER_S * len(images))
        return torch.zeros(len(images), 10)

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("scale", [0.1, 1.0], ids=["all batches are timed", "the last is extrapolated"])
@pytest.mark.parametrize("augment", ["shift", "none"])
def test_an_epoch_costs_what_its_steps_and_answers_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scale: float, augment: str
) -> None:
    costs = Costs(monkeypatch, scale)
    job = replace(make_job(tmp_path, epochs=10, augment=augment), teacher=make_teacher(costs.answer))
    found = preview_training(plain_model(make_mlp()), job, costs)
    assert (found.timed[-1].images == 64) == (scale < 1)
    plain, answers = 4 * scale * (STEP_S + IMAGE_S * 64), 4 * scale * (ASKED_S + ANSWER_S * 64)
    assert found.plain_epoch_s == pytest.approx(plain) and found.answers_s == pytest.approx(answers)
    assert found.whole_s == pytest.approx(10 * plain + (1 if augment == "none" else 10) * answers)
    first, without, with_it = found.lines()
    assert "4 steps of 64" in first and "without a teacher" in without
    assert ("computed once" in with_it) == (augment == "none")
    assert not (tmp_path / "checkpoint").exists() and not (tmp_path / "history.jsonl").exists()


def test_without_a_teacher_nothing_is_said_of_one(tmp_path: Path) -> None:
    found = preview_training(plain_model(make_mlp()), make_job(tmp_path))
    assert found.whole_s == found.plain_s > 0 and len(found.lines()) == 2
