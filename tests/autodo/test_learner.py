"""When λ moves and how fast, what it does to the loss, and when it is frozen."""

import math

import pytest
import torch
from torch import Tensor, nn

from pipeline.autodo.early_losses import EarlyLosses
from pipeline.autodo.guard import Guard
from pipeline.autodo.learner import Course, Learner
from pipeline.autodo_config import AutodoConfig
from pipeline.bilevel import DivergenceError, NonFiniteError
from tests.autodo.problem import make_problem, randn

CPU = torch.device("cpu")


def make_learner(learn: str = "weights+labels", images: int = 6) -> Learner:
    config = AutodoConfig(learn=learn, guide_share=0.1, start_epoch=2)  # type: ignore[arg-type]
    indices = torch.arange(images) * 3 + 5  # some images of a pool
    return Learner(config, indices, torch.arange(images) % 3, 3, 10, CPU)


def test_the_rate_warms_up_from_a_tenth_and_falls_to_a_thousandth() -> None:
    course = Course(AutodoConfig(start_epoch=50, lr=0.05), 200)
    assert [course.rate(50 + e) for e in range(5)] == pytest.approx([0.05 * (0.1 + 0.18 * e) for e in range(5)])
    wave = [(1 + math.cos(math.pi * e / 145)) / 2 for e in range(145)]
    wanted = [0.05 * (0.001 + 0.999 * w) for w in wave]
    assert [course.rate(55 + e) for e in range(145)] == pytest.approx(wanted, abs=1e-15)
    assert course.is_plain(49) and not course.is_plain(50)


def test_a_short_course_warms_up_in_proportion() -> None:
    """A thirtieth of the epochs, as 5 of 150: none of 29, one of 30."""
    assert Course(AutodoConfig(start_epoch=1, lr=1.0), 30).rate(1) == 1.0
    course = Course(AutodoConfig(start_epoch=1, lr=1.0), 31)
    assert [course.rate(e) for e in (1, 2)] == pytest.approx([0.1, 1.0])
    assert Course(AutodoConfig(start_epoch=2, lr=1.0), 3).rate(2) == 1.0


def test_the_loss_is_plain_at_first_and_weighted_by_the_mean_after() -> None:
    learner, logits = make_learner(), randn(2, 3, seed=0).float()
    indices, labels = torch.tensor([8, 20]), torch.tensor([1, 2])  # rows 1 and 5
    learner.begin_epoch(1)
    assert torch.equal(learner.loss(logits, labels, indices), nn.functional.cross_entropy(logits, labels))
    learner.optimizer.values["weights"].copy_(torch.tensor([0.0, 1.0, 2.0, -1.0, 0.5, -3.0]))
    learner.optimizer.values["labels"].copy_(randn(6, 3, seed=1))
    learner.begin_epoch(2)
    weights = torch.log1p(learner.optimizer.values["weights"].double().exp())
    losses = [symmetric(logits[k], learner.optimizer.values["labels"][row]) for k, row in enumerate((1, 5))]
    wanted = (weights[1] * losses[0] + weights[5] * losses[1]) / 2 / weights.mean()
    assert float(learner.loss(logits, labels, indices)) == pytest.approx(float(wanted), rel=1e-6)


def symmetric(logits: Tensor, raw: Tensor) -> Tensor:
    p, s = logits.double().softmax(0), raw.double().softmax(0)
    return ((s * (s / p).log()).sum() + (p * (p / s).log()).sum()) / 2


def test_gamma_is_halved_where_the_series_grows_and_given_up_in_the_end() -> None:
    learner, problem = make_learner("weights"), make_problem(decay=10.0)
    problem.rows["weights"] = problem.rows["weights"][:6]
    assert learner.config.gamma == 0.01
    for decay, fits in ((400.0, True), (1e6, False)):  # γ · decay must come below about 2
        stiff = make_problem(decay=decay)
        if fits:
            learner._gradients(stiff)
        else:
            with pytest.raises(DivergenceError):
                learner._gradients(stiff)
    with pytest.raises(NonFiniteError):
        learner._gradients(make_problem(decay=math.nan))


def test_lambda_is_frozen_at_its_best_after_three_epochs_two_points_below() -> None:
    values, guard = {"weights": torch.zeros(2)}, Guard()
    history = []
    for number, top1 in enumerate([0.80, 0.82, 0.79, 0.77, 0.77, 0.79, 0.779, 0.779, 0.779, 0.9]):
        values["weights"].fill_(number)
        history.append(guard.judge(top1, values))
    assert history == [False] * 8 + [True, False]
    assert guard.values["weights"].tolist() == [1.0, 1.0]  # of the epoch at .82


def test_freezing_puts_the_best_back_and_the_state_survives() -> None:
    values, guard = {"weights": torch.zeros(2)}, Guard()
    for number, top1 in enumerate([0.8, 0.7, 0.7, 0.7]):
        values["weights"].fill_(number)
        if number == 2:
            other = Guard()
            other.load(guard.state())
            guard = other
        frozen = guard.judge(top1, values)
    assert frozen and values["weights"].tolist() == [0.0, 0.0]


def test_early_losses_are_the_mean_over_the_plain_epochs() -> None:
    early = EarlyLosses(2, CPU)
    early.observe(torch.tensor([1.0, 4.0]), torch.tensor([3, 1]), 0.5)
    early.observe(torch.tensor([2.0, 8.0]), torch.tensor([2, 1]), 0.75)
    again = EarlyLosses(2, CPU)
    again.load(early.state())
    assert again.mean.tolist() == [1.5, 6.0] and again.answers.tolist() == [2, 1] and again.guide_top1 == 0.75
