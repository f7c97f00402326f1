"""Training goes on with the same bits, rolls back, keeps the best, and saves when it should."""

import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pipeline.data import Batch
from pipeline.errors import Interrupted, PromiseBroken, UserError
from pipeline.resumable.checkpoint import Checkpoints
from pipeline.training import loop
from pipeline.training.job import Job, Outcome
from pipeline.training.loop import copied, train
from pipeline.training.measures import Predictions
from pipeline.training.step import Model, Outputs, model_of
from tests.training.material import digits, make_job, make_network


def bits(outcome: Outcome) -> list[bytes]:
    return [tensor.numpy().tobytes() for state in (outcome.last, outcome.deployed) for tensor in state.values()]


def watched(after: Callable[[int], None]) -> Model:
    """A network that calls `after` with the number of its forward passes."""
    model, count = model_of(make_network()), [0]

    def forward(x: Tensor) -> Outputs:
        count[0] += 1
        after(count[0])
        return model.forward(x)

    return replace(model, forward=forward)


def entries(job: Job) -> list[dict[str, Any]]:
    return [json.loads(line) for line in job.history.read_text().splitlines()]


def stop_at(step: int) -> Callable[[int], None]:
    return lambda count: os.kill(os.getpid(), signal.SIGTERM) if count == step else None


def test_interrupted_anywhere_it_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"epochs": 3, "mixup": 0.2}
    whole = train(model_of(make_network()), make_job(tmp_path / "whole", **settings))
    job = make_job(tmp_path / "cut", **settings)
    for passes in (2, 3, 4):  # a signal is heard one step later: 3, 7 and 12 of 12
        with pytest.raises(Interrupted, match="run the same command"):
            train(watched(stop_at(passes)), job)
    resumed = train(model_of(make_network()), job)
    assert bits(resumed) == bits(whole)
    log = entries(job)
    assert [entry["step"] for entry in log if entry.get("event") == "resumed"] == [3, 7, 12]
    losses = [[e["train_loss"] for e in outcome.history if "train_loss" in e] for outcome in (whole, resumed)]
    assert losses[0] == losses[1] and len(losses[0]) == 3


def test_a_signal_in_the_last_step_is_heard(tmp_path: Path) -> None:
    job = make_job(tmp_path, epochs=1)
    with pytest.raises(Interrupted, match="all epochs are done"):
        train(watched(stop_at(4)), job)
    assert bits(train(watched(lambda count: pytest.fail("it stepped again")), job))


@pytest.mark.parametrize(("images", "batch_size"), [(65, 64), (33, 16), (5, 2)])
def test_an_image_left_over_is_no_batch_of_its_own(images: int, batch_size: int, tmp_path: Path) -> None:
    """BatchNorm has nothing to normalize one image by: an epoch ends with its last whole batch."""
    sizes: list[int] = []
    model = model_of(make_network())
    watching = replace(model, forward=lambda x: sizes.append(len(x)) or model.forward(x))  # type: ignore[func-returns-value]
    train(watching, make_job(tmp_path, images=images, batch_size=batch_size, epochs=1))
    assert sizes == [batch_size] * (images // batch_size)


@pytest.mark.parametrize(("batch_size", "accumulate"), [(16, 16), (16, 9), (3, 2)])
def test_parts_of_one_image_are_refused_before_a_step(batch_size: int, accumulate: int, tmp_path: Path) -> None:
    job = make_job(tmp_path, batch_size=batch_size, accumulate=accumulate)
    with pytest.raises(UserError, match=rf"accumulate = {accumulate} .* BatchNorm .* {batch_size // 2} at most"):
        train(watched(lambda count: pytest.fail("it stepped")), job)
    assert not list(tmp_path.rglob("*.pt"))


def test_a_finished_training_is_not_repeated(tmp_path: Path) -> None:
    job = make_job(tmp_path, epochs=1)
    first = train(model_of(make_network()), job)
    assert bits(train(watched(lambda count: pytest.fail("it stepped again")), job)) == bits(first)


def poison(model: Model, after_passes: int, times: int) -> Model:
    """A model whose loss is NaN from a pass on, until it was so some times."""
    count, left = [0], [times]

    def forward(x: Tensor) -> Outputs:
        count[0] += 1
        outputs = model.forward(x)
        if count[0] >= after_passes and left[0] > 0:
            left[0] -= 1
            return Outputs(outputs.logits * float("nan"), outputs.auxiliary)
        return outputs

    return replace(model, forward=forward)


def test_a_loss_that_is_not_finite_goes_back_an_epoch_at_half_the_rate(tmp_path: Path) -> None:
    """4 steps per epoch; pass 7 fails, so that epoch 2 starts again from the weights that epoch 1 left."""
    job = make_job(tmp_path, epochs=2, schedule="linear", lr=0.1)
    outcome = train(poison(model_of(make_network()), 7, 1), job)
    back = [entry for entry in entries(job) if entry.get("event") == "rolled back"]
    assert back == [{"step": 4, "event": "rolled back", "rate_scale": 0.5}]
    rates = {entry["epoch"]: entry["lr"] for entry in entries(job) if "train_loss" in entry}
    assert rates == pytest.approx({1: 0.1 * 5 / 8, 2: 0.1 * 1 / 8 * 0.5})
    plain = train(model_of(make_network()), make_job(tmp_path / "plain", epochs=2, schedule="linear", lr=0.1))
    assert bits(outcome) != bits(plain)
    assert all(torch.isfinite(tensor).all() for tensor in outcome.deployed.values())


def test_a_third_time_ends_with_a_sentence_also_across_restarts(tmp_path: Path) -> None:
    job = make_job(tmp_path, epochs=2)
    with pytest.raises(PromiseBroken, match=r"lower \[retrain\] lr"):
        train(poison(model_of(make_network()), 6, 99), job)
    assert sum(entry.get("event") == "rolled back" for entry in entries(job)) == 2
    with pytest.raises(PromiseBroken, match=r"0\.25 of the learning rate"):
        train(poison(model_of(make_network()), 1, 99), job)


def watch_notes(monkeypatch: pytest.MonkeyPatch, shown: list[str]) -> None:
    """Collect what stands beside the progress bar."""
    update = loop.Trainer._step

    def step(self: loop.Trainer, batch: Batch) -> None:
        update(self, batch)
        shown.append(self.bar.tasks[0].fields["note"])

    monkeypatch.setattr(loop.Trainer, "_step", step)


def test_the_best_epoch_on_held_out_images_is_deployed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Accuracies of 1/4, 3/4 and 2/4 are made up; the weights of the second epoch must come out."""
    accuracies, seen = iter([1, 3, 2]), []

    def judge(network: nn.Module, *_: object) -> Predictions:
        seen.append(copied(network.state_dict()))
        right = next(accuracies)
        return Predictions(torch.eye(2)[[0] * right + [1] * (4 - right)], torch.zeros(4, dtype=torch.long))

    monkeypatch.setattr(loop, "predict", judge)
    job = replace(make_job(tmp_path, epochs=3), holdout=digits().validation)
    shown = list[str]()
    watch_notes(monkeypatch, shown)
    outcome = train(model_of(make_network()), job)
    assert "holdout" not in shown[0] and shown[-1].endswith("· holdout 75.0%"), "that of the last whole epoch"
    assert [entry["holdout_top1"] for entry in outcome.history if "holdout_top1" in entry] == [0.25, 0.75, 0.5]
    assert outcome.kind == "averaged, best epoch"
    assert all(torch.equal(outcome.deployed[name], tensor) for name, tensor in seen[1].items())
    assert not torch.equal(seen[1]["head.2.weight"], seen[2]["head.2.weight"])


def test_checkpoints_within_an_epoch_follow_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, steps = [0.0], []
    save = Checkpoints.save

    def spy(self: Checkpoints, step: int, state: dict[str, Any]) -> Path:
        steps.append((self.folder.name, step))
        return save(self, step, state)

    monkeypatch.setattr(Checkpoints, "save", spy)
    monkeypatch.setattr("pipeline.training.keeper.time.monotonic", lambda: 0.0)

    def tick(count: int) -> None:
        now[0] += 10.0

    job = make_job(tmp_path, images=512, epochs=1, checkpoint_s=25.0, clock=lambda: now[0])
    train(watched(tick), job)
    assert steps == [("epoch", 0), ("last", 3), ("last", 6), ("epoch", 8)]


def test_precision_trials_leave_no_trace(tmp_path: Path) -> None:
    chosen = train(model_of(make_network()), make_job(tmp_path / "auto", epochs=1, precision="auto"))
    if chosen.precision == "float32":
        fixed = train(model_of(make_network()), make_job(tmp_path / "fixed", epochs=1))
        assert bits(chosen) == bits(fixed)
    else:
        assert chosen.precision == "bfloat16"


def test_a_training_of_few_steps_is_doubted(tmp_path: Path) -> None:
    """256 images in batches of 64: four steps an epoch."""
    assert make_job(tmp_path, epochs=50).describe_shortness() == ""
    short, plain = (make_job(tmp_path, epochs=49, ema=ema).describe_shortness() for ema in (0.9, 0.0))
    assert "196 steps" in short and "ema = 0.9" in short
    assert "196 steps" in plain and "ema" not in plain
