"""Learning from a teacher: the loss against its formula, what the teacher sees, the cache, and resuming."""

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pipeline.config import RetrainConfig
from pipeline.data.normalization import to_floats
from pipeline.errors import Interrupted
from pipeline.training.distillation import CachedAnswers, Distillation, distance, make_distillation, may_cache
from pipeline.training.job import FirstEpoch
from pipeline.training.loop import train
from pipeline.training.step import Stepper, model_of, plain_model
from tests.training.material import CPU, SOFT, make_job, make_mlp, make_network, make_teacher, recipe, taught_job
from tests.training.test_loop import bits, stop_at, watched
from tests.training.test_step import BATCH, IMAGES, LABELS


def oracle(student: Tensor, teacher: Tensor, temperature: float) -> float:
    """T² · mean over images of Σ_c p_c · log(p_c / q_c), in float64, term by term."""
    total = 0.0
    for s, t in zip(student.double().numpy(), teacher.double().numpy(), strict=True):
        p, q = (np.exp(z / temperature) / np.exp(z / temperature).sum() for z in (t, s))
        total += sum(pc * np.log(pc / qc) for pc, qc in zip(p, q, strict=True))
    return temperature**2 * total / len(student)


@pytest.mark.parametrize("temperature", [1.0, 4.0])
def test_the_distance_is_the_formula(temperature: float) -> None:
    torch.manual_seed(0)
    student, teacher = 3 * torch.randn(6, 5), 3 * torch.randn(6, 5)
    wanted = oracle(student, teacher, temperature)
    assert float(distance(student, teacher, temperature)) == pytest.approx(wanted, rel=1e-5)
    assert float(distance(teacher, teacher, temperature)) == pytest.approx(0.0, abs=1e-5)
    assert wanted != pytest.approx(oracle(teacher, student, temperature), rel=1e-2), "it is not symmetric"


def test_a_step_takes_both_losses_of_both_heads_in_their_shares() -> None:
    network, teacher = make_network(), make_teacher()
    twin = copy.deepcopy(network).train()
    logits, side = twin.forward_with_auxiliary((IMAGES - 0.5) / 0.25)
    assert side is not None
    answers = teacher.run((IMAGES - 0.3) / 0.2)
    plain = [float(nn.functional.cross_entropy(one.detach().double(), LABELS)) for one in (logits, side)]
    apart = [oracle(one.detach(), answers.detach(), 3.0) for one in (logits, side)]
    wanted = [0.3 * p + 0.7 * a for p, a in zip(plain, apart, strict=True)]
    done = stepper_of(network, Distillation(teacher, recipe(**SOFT))).step(BATCH, 0)
    assert done.loss == pytest.approx(wanted[0] + 0.4 * wanted[1], rel=1e-5)
    assert done.head_loss == pytest.approx(plain[0], rel=1e-5), "comparable with a loss on other images"


def stepper_of(network: nn.Module, distillation: Distillation | None, **settings: Any) -> Stepper:
    from pipeline.data.normalization import Normalization
    from pipeline.space.network import Network
    from pipeline.training.precision import Precision

    model = model_of(network) if isinstance(network, Network) else plain_model(network)
    config = recipe(**{**SOFT, "drop_path": 0.0, **settings})
    normalize = Normalization([0.5], [0.25], CPU, channels_last=False)
    return Stepper(model, config, normalize, Precision("float32", CPU), 10, 10, 1, None, distillation)


@pytest.mark.parametrize("mixing", [{"mixup": 0.5}, {"cutmix": 1.0}])
def test_the_teacher_sees_the_mixed_images_that_the_student_sees(mixing: dict[str, Any]) -> None:
    seen: list[Tensor] = []
    teacher = make_teacher(lambda x: seen.append(x.clone()) or torch.zeros(len(x), 10))  # type: ignore[func-returns-value]
    student: Any = make_mlp()
    fed: list[Tensor] = []
    student.register_forward_pre_hook(lambda _, inputs: fed.append(inputs[0].clone()))
    stepper_of(student, Distillation(teacher, recipe(**SOFT)), accumulate=2, **mixing).step(BATCH, 3)
    assert len(seen) == len(fed) == 2
    for theirs, ours in zip(seen, fed, strict=True):
        assert torch.allclose(theirs * 0.2 + 0.3, ours * 0.25 + 0.5, atol=1e-6)
    assert not torch.allclose(torch.cat(fed) * 0.25 + 0.5, IMAGES, atol=1e-3), "they were mixed"


def test_the_teacher_runs_in_inference_mode_and_stays_as_it_was() -> None:
    modes: list[bool] = []
    network = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, 10)).eval()

    def run(x: Tensor) -> Tensor:
        modes.append(torch.is_inference_mode_enabled())
        answer: Tensor = network(x)
        return answer

    before = copy.deepcopy(network.state_dict())
    done = stepper_of(make_mlp(), Distillation(make_teacher(run), recipe(**SOFT))).step(BATCH, 0)
    assert modes == [True] and np.isfinite(done.loss)
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())
    assert all(parameter.grad is None for parameter in network.parameters())


@pytest.mark.parametrize("settings", [{"mixup": 0.2}, {"augment": "none"}], ids=["asked", "cached"])
def test_interrupted_it_goes_on_with_the_same_bits(tmp_path: Path, settings: dict[str, Any]) -> None:
    whole = train(model_of(make_network()), taught_job(tmp_path / "whole", epochs=3, **settings))
    job = taught_job(tmp_path / "cut", epochs=3, **settings)
    for passes in (2, 4):
        with pytest.raises(Interrupted):
            train(watched(stop_at(passes)), job)
    assert bits(train(model_of(make_network()), job)) == bits(whole)
    plain = train(model_of(make_network()), replace(taught_job(tmp_path / "plain", epochs=3, **settings), teacher=None))
    assert bits(plain) != bits(whole), "the teacher had an effect"


def test_answers_are_kept_only_where_every_epoch_sees_the_same_pixels() -> None:
    plain = RetrainConfig()
    assert may_cache(plain, "none", 1000, 10)
    assert not may_cache(plain, "shift", 1000, 10)
    assert not may_cache(plain, "none", 10**7, 1000), "40 GB"
    for mixing in (RetrainConfig(mixup=0.1), RetrainConfig(cutmix=1.0)):
        assert not may_cache(mixing, "none", 1000, 10)


def test_the_cache_asks_once_and_answers_for_every_number(tmp_path: Path) -> None:
    asked: list[int] = []
    teacher = make_teacher()

    def watch(images: Tensor) -> Tensor:
        asked.append(len(images))
        return teacher(images)

    images = make_job(tmp_path, images=300).train
    cache = CachedAnswers(watch, images, CPU, 0)
    some = images.indices[torch.tensor([299, 0, 7])]
    wanted = teacher(to_floats(images.images.take(some)))
    for _ in range(2):
        assert torch.allclose(cache.of(some), wanted, atol=1e-6)
    assert asked == [256, 44]


def test_a_job_without_a_teacher_distils_nothing(tmp_path: Path) -> None:
    assert make_distillation(make_job(tmp_path)) is None


def test_the_first_whole_epoch_is_told_once(tmp_path: Path) -> None:
    told: list[FirstEpoch] = []
    now = [0.0]

    def tick(count: int) -> None:
        now[0] += 1.0

    job = replace(make_job(tmp_path, epochs=3, clock=lambda: now[0]), first_epoch=told.append)
    with pytest.raises(Interrupted):
        train(watched(stop_at(2)), replace(job, checkpoints=tmp_path / "cut"))
    assert not told, "no epoch was whole"
    train(watched(tick), replace(job, checkpoints=tmp_path / "cut"))
    assert [(one.epoch, one.epochs, one.seconds) for one in told] == [(2, 3, 4.0)]
    assert 0 < told[0].train_top1 <= 1
