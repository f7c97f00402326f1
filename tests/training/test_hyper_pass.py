"""AutoDO within a training: it finds flipped labels, goes on amid a hyper pass, rolls back, refuses what it must."""

import math
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from pipeline.autodo.last_layer import LastLayer
from pipeline.autodo.learner import Learner
from pipeline.autodo.parameters import Rows
from pipeline.autodo_config import Learn
from pipeline.bilevel import Method
from pipeline.errors import Interrupted, PromiseBroken, UserError
from pipeline.training.hyper_pass import HyperPass
from pipeline.training.job import Outcome
from pipeline.training.loop import train
from pipeline.training.step import Model, Outputs, model_of, plain_model
from tests.training.material import autodo_job, digits, make_mlp, make_network


def bits(outcome: Outcome) -> list[bytes]:
    learned = outcome.learned
    assert learned is not None and learned.labels is not None
    found = [*outcome.last.values(), *outcome.deployed.values(), learned.weights, learned.labels, learned.early_losses]
    if learned.augmentation is not None:
        found.append(learned.augmentation)
    return [tensor.numpy().tobytes() for tensor in found]


def test_flipped_labels_lose_weight_and_show_by_their_early_loss(tmp_path: Path) -> None:
    job = autodo_job(tmp_path, 512, flipped=150, epochs=20, lr=0.1, augment="none", ema=0.0)
    job = replace(job, autodo=job.autodo.model_copy(update={"start_epoch": 4}))
    learned = train(plain_model(make_mlp()), job).learned
    assert learned is not None and learned.labels is not None
    wrong, right = slice(0, 150), slice(150, None)
    assert float(learned.weights[wrong].mean()) < 0.7 and float(learned.weights[right].mean()) > 1.1
    assert float(learned.weights.mean()) == pytest.approx(1.0)
    assert float(learned.early_losses[wrong].median()) > 3 * float(learned.early_losses[right].median())
    given = job.train.targets[job.train.indices]
    trust = learned.labels.gather(1, given[:, None])[:, 0]
    assert float(trust[wrong].mean()) < 0.86 and float(trust[right].mean()) > 0.93
    truth = digits().train.targets[job.train.indices]
    assert float((learned.proposed == truth)[wrong].float().mean()) > 0.7
    assert 0.6 < learned.guide_top1 < 1.0


ALL: Learn = "weights+labels+augmentation"


@pytest.mark.parametrize("learn", ["weights+labels", ALL])
def test_interrupted_amid_a_hyper_pass_it_goes_on_with_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, learn: Learn
) -> None:
    """4 hyper steps before each of epochs 2 and 3; signals come in the second of one and the last of the other."""
    whole = train(model_of(make_network()), autodo_job(tmp_path / "whole", epochs=3, learn=learn))
    step, asked = HyperPass.step, {(1, 1), (2, 3)}

    def interrupted(self: HyperPass, epoch: int, number: int) -> float:
        if (epoch, number) in asked:
            asked.remove((epoch, number))
            os.kill(os.getpid(), signal.SIGTERM)
        return step(self, epoch, number)

    monkeypatch.setattr(HyperPass, "step", interrupted)
    job = autodo_job(tmp_path / "cut", epochs=3, learn=learn)
    for where in ("epoch 2, hyper step 2", "epoch 3, hyper step 4"):
        with pytest.raises(Interrupted, match=where):
            train(model_of(make_network()), job)
    resumed = train(model_of(make_network()), job)
    assert bits(resumed) == bits(whole)
    gaps = [[e["gradient_gap"] for e in outcome.history if "gradient_gap" in e] for outcome in (whole, resumed)]
    assert gaps[0] == gaps[1] and len(gaps[0]) == 2


def test_a_direction_that_is_not_finite_rolls_back_twice_then_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def poisoned(self: LastLayer, method: Method) -> Rows:
        return gradients(replace(self, decay=math.nan), method)

    gradients = LastLayer.gradients
    monkeypatch.setattr(LastLayer, "gradients", poisoned)
    with pytest.raises(PromiseBroken, match=r"hyper step 1 before epoch 2 failed .*\[autodo\] lr") as caught:
        train(model_of(make_network()), autodo_job(tmp_path, epochs=2))
    assert caught.value.exit_code == 3


def test_a_roll_back_restores_lambda(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The third hyper step fails once: the pass starts again from λ as the plain epoch left it, at half the rate."""
    gradients, rates, count, seen = LastLayer.gradients, [], [0], []

    def once(self: LastLayer, method: Method) -> Rows:
        count[0] += 1
        seen.append({name: value.clone() for name, value in self.rows.items()})
        return gradients(replace(self, decay=math.nan) if count[0] == 3 else self, method)

    move = HyperPass.step

    def noted(self: HyperPass, epoch: int, number: int) -> float:
        rates.append(self.stepper.rate_scale)
        return move(self, epoch, number)

    monkeypatch.setattr(LastLayer, "gradients", once)
    monkeypatch.setattr(HyperPass, "step", noted)
    train(model_of(make_network()), autodo_job(tmp_path, epochs=2))
    assert rates == [1.0] * 3 + [0.5] * 4
    assert torch.equal(seen[3]["labels"], seen[0]["labels"]) and not seen[3]["weights"].any()


class ScaledLogits(nn.Module):
    """A network whose last linear layer is not the last thing it does."""

    def __init__(self) -> None:
        super().__init__()
        self.body = make_mlp()

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = 3.0 * self.body(x)
        return logits


@pytest.mark.parametrize(
    "module",
    [nn.Sequential(nn.Conv2d(1, 10, 8), nn.Flatten()), ScaledLogits()],
    ids=["no linear layer", "not the last"],
)
def test_a_network_without_a_last_linear_layer_is_refused_at_once(tmp_path: Path, module: nn.Module) -> None:
    with pytest.raises(UserError, match="ends in a linear layer"):
        train(plain_model(module), autodo_job(tmp_path, epochs=2))


def test_the_classifier_is_the_last_layer_and_not_the_auxiliary_one() -> None:
    network = make_network(auxiliary=True)
    classifier = model_of(network).classifier
    assert classifier is not None and classifier.weight is network.get_parameter("head.2.weight")


@pytest.mark.parametrize("learn", ["weights+labels", ALL])
def test_hyper_steps_leave_the_network_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, learn: Learn) -> None:
    """Weights, BatchNorm statistics and mode are the same after a step as before."""
    step, compared = HyperPass.step, [0]

    def watched(self: HyperPass, epoch: int, number: int) -> float:
        before = {name: value.clone() for name, value in self.module.state_dict().items()}
        gap = step(self, epoch, number)
        assert all(torch.equal(value, before[name]) for name, value in self.module.state_dict().items())
        assert not any(p.grad is not None for p in self.module.parameters()) and self.module.training
        compared[0] += 1
        return gap

    monkeypatch.setattr(HyperPass, "step", watched)
    train(model_of(make_network()), autodo_job(tmp_path, epochs=2, learn=learn))
    assert compared == [4]


def test_every_part_of_lambda_a_moves_and_training_images_are_warped_after_the_plain_epochs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved: list[bool] = []
    augment = Learner.augment

    def watched(self: Learner, images: Tensor, indices: Tensor) -> Tensor:
        warped = augment(self, images, indices)
        moved.append(not torch.equal(warped, images))
        return warped

    monkeypatch.setattr(Learner, "augment", watched)
    learned = train(model_of(make_network()), autodo_job(tmp_path, epochs=3, learn=ALL)).learned
    assert moved == [False] * 4 + [True] * 8
    assert learned is not None and learned.augmentation is not None and learned.augmentation.shape == (256, 14)
    start = torch.tensor([0.2] * 7 + [0.5] * 7)
    away = (learned.augmentation - start).abs()
    assert float(away.mean(0).min()) > 0.01 and bool(((learned.augmentation > 0) & (learned.augmentation < 1)).all())


def test_a_hyper_step_that_needs_too_much_memory_names_its_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(self: LastLayer, method: Method) -> Rows:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(LastLayer, "gradients", exhausted)
    with pytest.raises(UserError, match=r"out of memory with 64 images at once; lower \[autodo\] batch_size"):
        train(model_of(make_network()), autodo_job(tmp_path, epochs=2, learn=ALL))


def test_a_falling_holdout_freezes_lambda_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    job = replace(autodo_job(tmp_path, epochs=7), holdout=digits().test)
    falling = iter([0.9, 0.95, 0.8, 0.8, 0.8, 0.8, 0.8])
    monkeypatch.setattr("pipeline.training.loop.Trainer._judge", lambda self, holdout: {"holdout_top1": next(falling)})
    outcome = train(model_of(make_network()), job)
    assert outcome.learned is not None and outcome.learned.frozen
    assert "frozen" in capsys.readouterr().err
    epochs = [entry["epoch"] for entry in outcome.history if "gradient_gap" in entry]
    assert epochs == [2, 3, 4, 5]  # none after the third fall


def forward_nothing(x: Tensor) -> Outputs:
    raise AssertionError("it stepped again")


def test_a_finished_training_is_not_repeated(tmp_path: Path) -> None:
    first = train(model_of(make_network()), autodo_job(tmp_path, epochs=2))
    network = make_network()
    model: Model = replace(model_of(network), forward=forward_nothing)
    assert bits(train(model, autodo_job(tmp_path, epochs=2))) == bits(first)
