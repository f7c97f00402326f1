"""One small trained network and one file of it, for all tests of the export."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
import torch
from torch import nn

from pipeline.artifacts.labels import Labels
from pipeline.artifacts.trained import Trained
from pipeline.deploy.contract import Budget, Export, Limits
from pipeline.deploy.deployed import Deployed, reference_logits
from pipeline.deploy.model_card import describe_model, to_metadata
from pipeline.latency.budget_rule import Measured
from pipeline.onnx_file import write_deployed
from pipeline.space.genotype import genotype_from_record
from pipeline.space.network import Network
from pipeline.space.skeleton import Skeleton
from tests.conftest import DARTS_V2_RECORD

AnyModule = TypeVar("AnyModule", bound=nn.Module)
LABELS = ("a, b", "'c'", '"d"', "жук", "two\nlines", "back\\slash", "数字", "", "é", "\\n")
LIMITS = Limits(
    budgets=(Budget(2.0, 50),), max_noise_floor=0.05, max_macs=600_000_000, max_params=0, max_file_mb=0, tolerance=1e-4
)


def shake(network: AnyModule, seed: int = 0) -> AnyModule:
    """Give every BatchNorm statistics and weights that cannot be mistaken for the defaults."""
    random = torch.Generator().manual_seed(seed)
    for part in network.modules():
        if isinstance(part, nn.BatchNorm2d):
            assert part.running_mean is not None and part.running_var is not None
            part.running_mean.normal_(generator=random)
            part.running_var.uniform_(0.5, 2.0, generator=random)
            if part.affine:
                nn.init.uniform_(part.weight, 0.5, 1.5, generator=random)
                nn.init.normal_(part.bias, generator=random)
    return network


def make_trained(skeleton: Skeleton, record: dict[str, Any], labels: tuple[str, ...]) -> Trained:
    torch.manual_seed(0)
    network = shake(Network(skeleton, genotype_from_record(record))).eval()
    mean, std = (0.3, 0.4, 0.5)[: skeleton.in_channels], (0.2, 0.25, 0.3)[: skeleton.in_channels]
    return Trained(network, mean, std, labels)


def make_images(trained: Trained, count: int) -> Any:
    """Random images, labelled by the network itself; a list, which serves as a Dataset."""
    skeleton = trained.network.skeleton
    shape = (count, skeleton.in_channels, skeleton.resolution, skeleton.resolution)
    images = torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    return [
        (image, int(label)) for image, label in zip(images, reference_logits(trained, images).argmax(1), strict=True)
    ]


def measure_fake(paths: Sequence[Path]) -> list[Measured]:
    return [Measured(1.0, 1.2, 1.5, 0.01) for _ in paths]


@pytest.fixture(scope="session")
def trained() -> Trained:
    return make_trained(Skeleton("darts", 3, 8, 16, len(LABELS), 3), DARTS_V2_RECORD, LABELS)


@pytest.fixture(scope="session")
def model_file(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path, deployed = tmp_path_factory.mktemp("deployed") / "model.onnx", Deployed(trained, uint8_input=False)
    write_deployed(deployed, deployed.example(), path, to_metadata(describe_model(trained, uint8_input=False)))
    return path


@pytest.fixture
def export(trained: Trained, model_file: Path, tmp_path: Path) -> Export:
    shutil.copy(model_file, tmp_path / "model.onnx")
    Labels(LABELS).write(tmp_path / "labels.txt")
    deployed = Deployed(trained, uint8_input=False)
    return Export(tmp_path, trained, deployed, LABELS, make_images(trained, 70), 1.0, LIMITS, measure_fake)


def with_limits(export: Export, **changes: Any) -> Export:
    return replace(export, limits=replace(export.limits, **changes))
