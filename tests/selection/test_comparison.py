"""The race keeps the better half of every heat; rescoring ranks by validation loss on real images."""

import math

import pytest
import torch

from pipeline.artifacts.alphas import SupernetWeights
from pipeline.config import DataConfig
from pipeline.data import load_data
from pipeline.errors import UserError
from pipeline.selection.comparison import Material, SupernetJudge, Trial, validation_loss
from pipeline.selection.race import count_trainings, run_race
from pipeline.space.genotype import Genotype
from pipeline.space.network import Network
from pipeline.space.skeleton import Skeleton
from pipeline.space.spaces import space_named
from pipeline.space.supernet import Supernet


class FakeRunner:
    """Its loss falls like quality + gap/steps: slow starters overtake."""

    def __init__(self, quality: float, slowness: float) -> None:
        self.quality, self.slowness, self.heats = quality, slowness, 0

    def loss_after(self, steps: int) -> float:
        self.heats += 1
        return self.quality + self.slowness / steps


def test_the_better_half_goes_on_for_twice_as_many_steps() -> None:
    runners = [FakeRunner(q, 0.0) for q in (0.3, 0.1, 0.5, 0.2, 0.4)]
    results = run_race(runners, 10)
    # 5 → 3 → 2 → 1
    assert [r.steps for r in results] == [30, 70, 10, 70, 10]
    assert [r.place for r in results] == [2, 0, 4, 1, 3]
    assert [r.loss for r in results] == [0.3, 0.1, 0.5, 0.2, 0.4]
    assert sum(runner.heats for runner in runners) == count_trainings(5) == 10


def test_a_slow_starter_can_win_and_a_diverged_one_cannot() -> None:
    runners = [FakeRunner(0.2, 0.0), FakeRunner(0.1, 1.9), FakeRunner(math.nan, 0.0), FakeRunner(0.9, 0.0)]
    results = run_race(runners, 10)
    assert results[1].place == 0
    assert results[2].place == 3
    assert results[2].loss == math.inf


def test_one_runner_needs_no_race() -> None:
    runner = FakeRunner(0.1, 0.0)
    assert run_race([runner], 10)[0].place == 0
    assert runner.heats == count_trainings(1) == 0


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    data = load_data(
        DataConfig(resolution=8, augment="none", validation_share=0.1), tmp_path_factory.mktemp("project"), 0
    )
    return Material(data, 32, 0, "none", torch.device("cpu"))


def genotype_of(operation: str) -> Genotype:
    nodes = [[[operation, 0], [operation, 1]] for _ in range(4)]
    pairs = [pair for node in nodes for pair in node]
    space = space_named("darts")
    return Genotype("darts", space.decode({"normal": pairs, "reduce": pairs}))


SKELETON = Skeleton("darts", 1, 4, 8, 10, in_channels=1)


def test_a_trial_learns_from_the_data_and_repeats_to_the_bit(material: Material) -> None:
    whole, parts = (Trial(SKELETON, genotype_of("dil_conv_3x3"), material, lr=0.1) for _ in range(2))
    untrained, early = parts.loss_after(0), parts.loss_after(8)
    assert parts.loss_after(20) == whole.loss_after(20) < untrained - 0.1
    assert parts.loss_after(8) == early, "what was reached before is not trained again"


def test_validation_loss_is_the_mean_over_all_validation_images(material: Material) -> None:
    torch.manual_seed(0)
    network = Network(SKELETON, genotype_of("skip_connect"))
    data = material.data
    pixels = torch.stack([data.validation[i][0] for i in range(len(data.validation))]).double() / 255
    labels = torch.tensor([data.validation[i][1] for i in range(len(data.validation))])
    mean, std = (torch.tensor(v, dtype=torch.float64).view(-1, 1, 1) for v in (data.mean, data.std))
    with torch.no_grad():
        logits = network.eval().double()((pixels - mean) / std)
        expected = torch.nn.functional.cross_entropy(logits, labels)
    assert validation_loss(network.float(), material) == pytest.approx(float(expected), rel=1e-5)


def test_supernet_weights_judge_cells(material: Material) -> None:
    torch.manual_seed(0)
    weights = SupernetWeights(Supernet(SKELETON).state_dict())
    judge = SupernetJudge(SKELETON, weights, material)
    first, second = (judge.loss(genotype_of(o)) for o in ("dil_conv_3x3", "skip_connect"))
    assert first != second
    assert judge.loss(genotype_of("dil_conv_3x3")) == first
    assert 0 < first < 10
    other = Skeleton("darts", 1, 8, 8, 10, in_channels=1)
    with pytest.raises(UserError, match="pipeline search"):
        SupernetJudge(other, weights, material)
