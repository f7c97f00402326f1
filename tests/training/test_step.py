"""One step against the formula it stands for."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pipeline.data import Batch
from pipeline.data.normalization import Normalization
from pipeline.errors import UserError
from pipeline.training.precision import Precision, choose_precision
from pipeline.training.step import Model, Outputs, Stepper, model_of, plain_model
from tests.training.material import CPU, make_network, recipe

IMAGES, LABELS = torch.rand(8, 1, 8, 8, generator=torch.Generator().manual_seed(0)), torch.arange(8)
BATCH = Batch(IMAGES, LABELS, torch.arange(8))


def stepper_of(model: Model, **settings: Any) -> Stepper:
    normalize = Normalization([0.5], [0.25], CPU, channels_last=False)
    return Stepper(model, recipe(**settings), normalize, Precision("float32", CPU), 10, 10, seed=1)


@pytest.mark.parametrize("clip", [0.3, 1e6])
def test_parts_average_gradients_of_their_own_batch_statistics(clip: float) -> None:
    network = make_network()
    oracle = copy.deepcopy(network)
    loss, cross_entropy = torch.zeros(()), nn.CrossEntropyLoss()
    for half in (slice(0, 4), slice(4, 8)):
        logits, side = oracle.forward_with_auxiliary((IMAGES[half] - 0.5) / 0.25)
        loss = loss + (cross_entropy(logits, LABELS[half]) + 0.4 * cross_entropy(side, LABELS[half])) / 2
    loss.backward()
    nn.utils.clip_grad_norm_(oracle.parameters(), clip)
    with torch.no_grad():
        for p in oracle.parameters():
            assert p.grad is not None
            g = p.grad + 3e-4 * p
            p.sub_(0.05 * (g + 0.9 * g))  # the first Nesterov step
    done = stepper_of(model_of(network), accumulate=2, lr=0.05, clip=clip, drop_path=0.0).step(BATCH, 0)
    assert done.loss == pytest.approx(float(loss.detach()), abs=1e-6)
    for ours, wanted in zip(network.parameters(), oracle.parameters(), strict=True):
        assert torch.allclose(ours, wanted, atol=1e-7)


def test_averaged_weights_follow_the_decay() -> None:
    module: Any = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    stepper, weights = stepper_of(plain_model(module), ema=0.5, lr=0.5), [module[1].weight.detach().clone()]
    average = weights[0]
    for number in range(4):
        stepper.step(BATCH, number)
        decay = min(0.5, 1 - (1 + number) ** (-2 / 3)) if number else 0.0
        average = decay * average + (1 - decay) * module[1].weight.detach()
    assert torch.allclose(stepper.deployed.get_parameter("1.weight"), average, atol=1e-7)
    assert not torch.allclose(average, module[1].weight)


def test_a_step_depends_on_its_number_and_not_on_what_was_drawn_before() -> None:
    results = []
    for noise in (0, 5):
        network = make_network()
        network.set_drop_path(0.5)
        stepper = stepper_of(model_of(network), mixup=0.5)
        torch.rand(noise)
        results.append([stepper.step(BATCH, number).loss for number in (4, 5)])
    assert results[0] == results[1]


def test_a_loss_that_is_not_finite_changes_nothing() -> None:
    module: Any = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    stepper = stepper_of(Model(module, lambda x: Outputs(module(x) * float("nan"), None), lambda rate: None))
    before = module[1].weight.detach().clone()
    done = stepper.step(BATCH, 0)
    assert done.loss != done.loss and torch.equal(module[1].weight, before)


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA"), RuntimeError("can't allocate memory: 12 bytes")])
def test_out_of_memory_names_what_to_try(error: Exception) -> None:
    def forward(x: Tensor) -> Outputs:
        raise error

    stepper = stepper_of(Model(nn.Linear(1, 1), forward, lambda rate: None), accumulate=2)
    with pytest.raises(UserError, match=r"4 images at once.* accumulate = 4 .* batch_size = 32"):
        stepper.step(BATCH, 0)


def test_other_errors_are_not_taken_for_memory() -> None:
    def forward(x: Tensor) -> Outputs:
        raise RuntimeError("shapes")

    with pytest.raises(RuntimeError, match="shapes"):
        stepper_of(Model(nn.Linear(1, 1), forward, lambda rate: None)).step(BATCH, 0)


def test_compiling_refuses_changing_drop_path() -> None:
    with pytest.raises(UserError, match="drop_path = 0"):
        stepper_of(plain_model(nn.Linear(1, 1)), compile=True, drop_path=0.1)


@pytest.mark.parametrize(("bfloat16_s", "wanted"), [(0.5, "bfloat16"), (0.9, "float32"), (2.0, "float32")])
def test_bfloat16_is_taken_on_a_cpu_only_where_it_is_clearly_faster(
    monkeypatch: pytest.MonkeyPatch, bfloat16_s: float, wanted: str
) -> None:
    now = [0.0]
    monkeypatch.setattr("pipeline.training.precision.time.perf_counter", lambda: now[0])

    def run_step(precision: Precision) -> None:
        now[0] += bfloat16_s if precision.name == "bfloat16" else 1.0

    assert choose_precision("auto", CPU, run_step).name == wanted
    assert choose_precision("float32", CPU, run_step).name == "float32"
