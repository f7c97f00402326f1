"""Synaptic flow against what scaling the weights does."""

import math

import pytest
import torch

from pipeline.selection.flow import log_flow
from pipeline.space.genotype import genotype_from_record
from pipeline.space.network import Network
from pipeline.space.skeleton import Skeleton

SKELETON = Skeleton("nasbench201", cells=3, channels=4, resolution=8, classes=3, in_channels=1)
CELL = "|nor_conv_3x3~0|+|skip_connect~0|nor_conv_1x1~1|+|avg_pool_3x3~0|none~1|nor_conv_3x3~2|"
DEAD = "|none~0|+|nor_conv_3x3~0|none~1|+|none~0|nor_conv_3x3~1|none~2|"


def cell(text: str):  # type: ignore[no-untyped-def]
    return genotype_from_record({"space": "nasbench201", "cell": text})


def test_flow_is_what_scaling_the_weights_does_to_the_output() -> None:
    """The output is linear in every tensor of weights, so Σ θ · ∂f/∂θ over a tensor is f(2θ) − f(θ)."""
    torch.manual_seed(0)
    network = Network(SKELETON, cell(CELL)).double().eval()
    ones = torch.ones(1, 1, 8, 8, dtype=torch.float64)
    with torch.no_grad():
        for weight in network.parameters():
            weight.abs_()
        before = float(network(ones).sum())
        total = 0.0
        for weight in (parameter for parameter in network.parameters() if parameter.ndim > 1):
            weight.mul_(2.0)
            total += float(network(ones).sum()) - before
            weight.div_(2.0)
    assert log_flow(SKELETON, cell(CELL), seed=0) == pytest.approx(math.log(total), abs=1e-10)


def test_a_network_that_ignores_its_input_has_no_flow() -> None:
    assert log_flow(SKELETON, cell(DEAD)) == -math.inf


def test_the_random_state_is_left_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    log_flow(SKELETON, cell(CELL))
    assert torch.rand(1) == expected
