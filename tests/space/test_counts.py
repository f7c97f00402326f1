"""Parameters and multiply-adds: to the last one, as published, and as other counters count them."""

import warnings

import pytest
import torch
from fvcore.nn import FlopCountAnalysis

from pipeline.space.costs import mac_costs, param_costs
from pipeline.space.genotype import Genotype, genotype_from_record
from pipeline.space.network import Network
from pipeline.space.plan import count_macs, count_params
from pipeline.space.skeleton import Skeleton

CIFAR = Skeleton("darts", cells=20, channels=36, resolution=32, classes=10)
IMAGENET = Skeleton("darts", cells=14, channels=48, resolution=224, classes=1000)


@pytest.mark.parametrize(
    ("skeleton", "params", "macs"),
    [(CIFAR, 3_349_342, 528_359_040), (IMAGENET, 4_718_752, 529_911_552)],
    ids=["cifar", "imagenet"],
)
def test_published_counts_of_darts_v2(darts_v2: Genotype, skeleton: Skeleton, params: int, macs: int) -> None:
    assert count_params(skeleton, darts_v2) == params
    assert count_macs(skeleton, darts_v2) == macs
    assert sum(p.numel() for p in Network(skeleton, darts_v2).parameters()) == params


def fvcore_macs(network: torch.nn.Module, shape: tuple[int, ...]) -> int:
    """fvcore calls multiply-adds flops and adds BatchNorm; conv and linear entries are what we count."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        analysis = FlopCountAnalysis(network.eval(), torch.zeros(shape)).unsupported_ops_warnings(False)
        analysis = analysis.uncalled_modules_warnings(False)
        by_operator = analysis.by_operator()
    return int(by_operator["conv"] + by_operator["linear"])


@pytest.mark.parametrize(
    "skeleton",
    [
        Skeleton("darts", cells=6, channels=8, resolution=32, classes=10),
        Skeleton("darts", cells=3, channels=8, resolution=28, classes=7, in_channels=1),
        Skeleton("darts", cells=5, channels=8, resolution=96, classes=10),
    ],
)
def test_macs_agree_with_fvcore(darts_v2: Genotype, skeleton: Skeleton) -> None:
    network = Network(skeleton, darts_v2)
    shape = (1, skeleton.in_channels, skeleton.resolution, skeleton.resolution)
    assert count_macs(skeleton, darts_v2) == fvcore_macs(network, shape)


@pytest.mark.parametrize(
    ("cell", "params_millions", "mflops"),
    [
        # rows of the published NAS-Bench-201 table (5 cells per stage, 16 channels, 10 classes)
        (
            "|avg_pool_3x3~0|+|nor_conv_1x1~0|skip_connect~1|+|nor_conv_1x1~0|skip_connect~1|skip_connect~2|",
            0.1293,
            15.6474,
        ),
        (
            "|nor_conv_3x3~0|+|nor_conv_3x3~0|avg_pool_3x3~1|+|skip_connect~0|nor_conv_3x3~1|skip_connect~2|",
            0.8024,
            113.9514,
        ),
    ],
)
def test_published_counts_of_nasbench201(cell: str, params_millions: float, mflops: float) -> None:
    skeleton = Skeleton("nasbench201", cells=15, channels=16, resolution=32, classes=10)
    genotype = genotype_from_record({"space": "nasbench201", "cell": cell})
    network = Network(skeleton, genotype)
    assert count_params(skeleton, genotype) == sum(p.numel() for p in network.parameters())
    assert count_params(skeleton, genotype) / 1e6 == pytest.approx(params_millions, abs=5e-5)
    assert count_macs(skeleton, genotype) == fvcore_macs(network, (1, 3, 32, 32))
    assert count_macs(skeleton, genotype) / 1e6 == pytest.approx(mflops, rel=0.05)


def test_costs_are_linear_and_equal_to_the_counts(darts_v2: Genotype) -> None:
    skeleton = Skeleton("darts", cells=6, channels=8, resolution=32, classes=10)
    assert mac_costs(skeleton).of(darts_v2) == count_macs(skeleton, darts_v2)
    assert param_costs(skeleton).of(darts_v2) == count_params(skeleton, darts_v2)
