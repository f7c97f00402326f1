"""Short trainings, on real images."""

import math
from dataclasses import replace

import pytest
import torch

from pipeline.config import DataConfig
from pipeline.data import load_data
from pipeline.selection.pool import feasible_networks
from pipeline.selection.short_training import Material, train_shortly, trial_skeleton, validation_loss
from pipeline.space.genotype import Genotype
from pipeline.space.network import Network
from pipeline.space.skeleton import Skeleton
from pipeline.space.spaces import space_named
from pipeline.space.supernet import Supernet


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


def test_a_short_training_learns_and_repeats_to_the_bit(material: Material) -> None:
    torch.manual_seed(5)
    untrained, first, again = (
        train_shortly(SKELETON, genotype_of("dil_conv_3x3"), material, steps) for steps in (0, 20, 20)
    )
    assert first == again < untrained - 0.1
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    train_shortly(SKELETON, genotype_of("dil_conv_3x3"), material, 1)
    assert torch.rand(1) == expected, "the caller's random state is left alone"


def test_with_a_supernet_weights_begin_as_they_are_there(material: Material) -> None:
    torch.manual_seed(7)
    supernet, genotype = Supernet(SKELETON), genotype_of("dil_conv_3x3")
    weights = [torch.full((len(kind.edges), len(kind.operations)), 1 / 8) for kind in supernet.space.kinds]
    for batch in list(material.validation(96)):  # running statistics that are not those of a new network
        supernet(batch.images, weights)

    class Alone(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return supernet.run(x, genotype)

    supernet.eval()
    expected = validation_loss(Alone(), material)
    untrained, trained = (train_shortly(SKELETON, genotype, material, steps, supernet) for steps in (0, 20))
    assert untrained == pytest.approx(expected, rel=1e-5)
    assert untrained != train_shortly(SKELETON, genotype, material, 0) and trained < untrained - 0.05
    assert validation_loss(Alone(), material) == expected, "the supernet keeps its weights"


def test_a_training_that_diverges_has_no_finite_loss(material: Material, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.selection.short_training._PEAK_LR", 1e20)
    assert train_shortly(SKELETON, genotype_of("dil_conv_3x3"), material, 6) == math.inf


def test_images_are_shrunk_to_the_resolution_asked(material: Material) -> None:
    small = replace(material, resolution=4)
    (batch,) = list(small.validation(1))[:1]
    whole = next(material.validation(1)).images
    assert batch.images.shape[-2:] == (4, 4)
    torch.testing.assert_close(batch.images, whole.unfold(2, 2, 2).unfold(3, 2, 2).mean((-2, -1)))


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


@pytest.mark.parametrize(
    ("searched", "tried"),
    [
        (Skeleton("darts", 8, 16, 16, 10), Skeleton("darts", 5, 8, 16, 10)),
        (Skeleton("darts", 3, 4, 64, 10), Skeleton("darts", 5, 4, 32, 10)),
        (Skeleton("darts", 8, 16, 64, 10, stem="imagenet"), Skeleton("darts", 5, 8, 64, 10, stem="imagenet")),
        (Skeleton("mobile", 22, 16, 64, 10, stem="cifar"), Skeleton("mobile", 22, 8, 32, 10, stem="cifar")),
        (Skeleton("nasbench-macro", 8, 8, 16, 10), Skeleton("nasbench-macro", 8, 8, 16, 10)),
    ],
)
def test_trials_are_small_whatever_is_searched(searched: Skeleton, tried: Skeleton) -> None:
    assert trial_skeleton(searched) == tried
    Network(tried, next(iter(feasible_networks(space_named(tried.space), (), 1, 0))))
