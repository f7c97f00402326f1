"""Recipes against the formulas they stand for."""

import math
from typing import Any

import pytest
import torch
from torch import nn

from pipeline.config import RetrainConfig
from pipeline.errors import UserError
from pipeline.presets import preset
from pipeline.training.recipe import make_loss, make_mixing, make_optimizer, make_schedule

PER_EPOCH = 10


def rates(**settings: Any) -> list[float]:
    config = RetrainConfig(**settings)
    optimizer = make_optimizer(config, nn.Linear(2, 2))
    schedule = make_schedule(config, optimizer, PER_EPOCH)
    found = []
    for step in range(config.epochs * PER_EPOCH):
        schedule(step)
        found.append(float(optimizer.param_groups[0]["lr"]))
    return found


def test_cosine_falls_along_half_a_wave() -> None:
    wanted = [0.01 + 0.09 * (1 + math.cos(math.pi * t / 80)) / 2 for t in range(80)]
    assert rates(epochs=8, lr=0.1, lr_min=0.01) == pytest.approx(wanted, abs=1e-12)


def test_linear_with_slow_epochs_is_the_one_of_p_darts() -> None:
    """For epoch e of E: lr (E-5-e)/(E-5), and lr (E-e)/(5 (E-5)) in the last five."""
    epochs, lr = 25, 0.5
    at_epochs = rates(epochs=epochs, lr=lr, schedule="linear", slow_epochs=5)[::PER_EPOCH]
    wanted = [lr * (epochs - 5 - e) / (epochs - 5) for e in range(epochs - 5)]
    wanted += [lr * (epochs - e) / (5 * (epochs - 5)) for e in range(epochs - 5, epochs)]
    assert at_epochs == pytest.approx(wanted, abs=1e-12)


def test_warm_up_rises_in_a_line_and_too_little_time_is_refused() -> None:
    found = rates(epochs=10, lr=1.0, warmup_epochs=2, schedule="linear")
    assert found[:20] == pytest.approx([0.01 + 0.99 * t / 20 for t in range(20)], abs=1e-12)
    assert found[20] == pytest.approx(1 - 20 / 100, abs=1e-12)
    with pytest.raises(UserError, match="slow_epochs"):
        rates(epochs=5, warmup_epochs=2, schedule="linear", slow_epochs=3)


def test_the_optimizer_is_nesterov_with_decay_on_everything_and_unknown_ones_are_named() -> None:
    group = make_optimizer(RetrainConfig(weight_decay=0.1), nn.BatchNorm2d(3)).param_groups
    assert len(group) == 1 and group[0]["nesterov"] and group[0]["momentum"] == 0.9 and group[0]["weight_decay"] == 0.1
    with pytest.raises(UserError, match="'nope'"):
        make_optimizer(RetrainConfig(optimizer="nope"), nn.Linear(1, 1))


@pytest.mark.parametrize("name", ["fusedadam", "bnbsgd8bit", "adahessian", "adafactorbv"])
def test_an_optimizer_that_timm_lists_but_that_cannot_run_here_is_refused_before_training(name: str) -> None:
    with pytest.raises(UserError, match=rf"\[retrain\] optimizer = '{name}' cannot run here \(.+\); try sgd"):
        make_optimizer(RetrainConfig(optimizer=name), nn.Linear(2, 2))


def test_the_trial_step_leaves_random_numbers_and_weights_as_they_are() -> None:
    network, state = nn.Linear(2, 2), torch.get_rng_state()
    before = network.weight.detach().clone()
    make_optimizer(RetrainConfig(optimizer="adamw"), network)
    assert torch.equal(torch.get_rng_state(), state) and torch.equal(network.weight, before)


def test_a_warm_up_as_long_as_the_training_is_refused() -> None:
    with pytest.raises(UserError, match="warmup_epochs"):
        rates(epochs=1, warmup_epochs=1)
    assert len(rates(epochs=1)) == PER_EPOCH


def test_mixing_weighs_labels_as_it_weighs_pixels_and_spares_the_odd_image() -> None:
    config = RetrainConfig(mixup=1.0, label_smoothing=0.1)
    images = torch.arange(5.0).view(5, 1, 1, 1).expand(5, 1, 2, 2).clone()
    mixed = make_mixing(config, 5)(images, torch.arange(5))
    off, on = 0.1 / 5, 0.9 + 0.1 / 5
    share = (mixed.labels[0, 0] - off) / (on - off)  # image 0 is mixed with image 3
    assert 0 < share < 1
    assert torch.allclose(mixed.images[0], 3.0 * (1 - share) * torch.ones(1, 2, 2))
    assert torch.allclose(mixed.labels[0, 3], (1 - share) * on + share * off)
    assert torch.equal(mixed.images[4], images[4])
    assert torch.allclose(mixed.labels[4], torch.tensor([off, off, off, off, on]))
    assert torch.equal(images[0], torch.zeros(1, 2, 2))  # the caller's images are left alone


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_losses_are_smoothed_cross_entropy(smoothing: float) -> None:
    logits, labels = torch.randn(6, 4, dtype=torch.float64), torch.arange(6) % 4
    shares = torch.full((6, 4), smoothing / 4, dtype=torch.float64)
    shares[torch.arange(6), labels] += 1 - smoothing
    wanted = -(shares * logits.log_softmax(1)).sum(1).mean()
    assert float(make_loss(RetrainConfig(label_smoothing=smoothing))(logits, labels)) == pytest.approx(float(wanted))
    assert float(make_loss(RetrainConfig(mixup=1.0))(logits, shares)) == pytest.approx(float(wanted))


def test_the_presets_hold_the_published_recipes() -> None:
    cifar, mobile = preset("cifar10"), preset("imagenet-mobile")
    assert (cifar.target.cells, cifar.target.channels, cifar.data.augment) == (20, 36, "crop-flip-cutout")
    r = cifar.retrain
    assert (r.epochs, r.batch_size, r.lr, r.weight_decay, r.drop_path, r.auxiliary, r.clip, r.schedule) == (
        600, 96, 0.025, 3e-4, 0.2, 0.4, 5.0, "cosine",
    )  # fmt: skip
    r = mobile.retrain
    assert (mobile.target.cells, mobile.target.channels) == (14, 48)
    assert r.lr == 0.5 * r.batch_size / 1024
    assert (r.epochs, r.batch_size, r.weight_decay, r.label_smoothing, r.auxiliary, r.warmup_epochs, r.slow_epochs) == (
        250, 128, 3e-5, 0.1, 0.4, 5, 5,
    )  # fmt: skip
