"""Zero-cost proxies: synflow against what scaling the weights does, activations against a look by hand."""

import math

import numpy as np
import pytest
import torch

from pipeline.selection.zero_cost import activation_proxies, direction_entropy, log_synflow
from pipeline.space.genotype import genotype_from_record
from pipeline.space.network import Network
from pipeline.space.skeleton import Skeleton

SKELETON = Skeleton("nasbench201", cells=3, channels=4, resolution=8, classes=3, in_channels=1)
CELL = "|nor_conv_3x3~0|+|skip_connect~0|nor_conv_1x1~1|+|avg_pool_3x3~0|none~1|nor_conv_3x3~2|"
DEAD = "|none~0|+|nor_conv_3x3~0|none~1|+|none~0|nor_conv_3x3~1|none~2|"


def cell(text: str):
    return genotype_from_record({"space": "nasbench201", "cell": text})


def test_synflow_is_what_scaling_the_weights_does_to_the_output() -> None:
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
    assert log_synflow(SKELETON, cell(CELL), seed=0) == pytest.approx(math.log(total), abs=1e-10)


def test_a_network_that_ignores_its_input_has_no_synflow() -> None:
    assert log_synflow(SKELETON, cell(DEAD)) == -math.inf


def test_the_random_state_is_left_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    log_synflow(SKELETON, cell(CELL))
    assert torch.rand(1) == expected


IMAGES = torch.rand(6, 1, 8, 8, generator=torch.Generator().manual_seed(0))


def look_by_hand() -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Which ReLUs every image switches on, and the features after every part, of a network built and run here."""
    from pipeline.space.network import Network

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = Network(SKELETON, cell(CELL)).train()
    signs: list[torch.Tensor] = []
    for module in network.modules():
        if isinstance(module, torch.nn.ReLU):
            module.register_forward_pre_hook(lambda _, inputs: signs.append(inputs[0].flatten(1) > 0))
    with torch.no_grad():
        features = network.features(IMAGES, lambda module, _, inputs: module(inputs))
        network.head(features[-1])
    return signs, features


def test_naswot_counts_agreeing_relus_one_by_one() -> None:
    signs, _ = look_by_hand()
    kernel = [[sum(int((s[i] == s[j]).sum()) for s in signs) for j in range(6)] for i in range(6)]
    expected = math.log(np.linalg.det(np.array(kernel, np.float64)))
    assert activation_proxies(SKELETON, cell(CELL), IMAGES).naswot == pytest.approx(expected, rel=1e-6)


def test_expressivity_and_progressivity_are_those_of_the_singular_values() -> None:
    """The covariance's eigenvalues are the squared singular values of the centred features."""
    _, features = look_by_hand()
    entropies = []
    for part in features:
        columns = part.double().permute(0, 2, 3, 1).reshape(-1, part.shape[1]).numpy()
        variances = np.linalg.svd(columns - columns.mean(axis=0), compute_uv=False) ** 2
        shares = variances / variances.sum()
        entropies.append(-sum(share * math.log(share) for share in shares if share > 1e-12))
    found = activation_proxies(SKELETON, cell(CELL), IMAGES)
    assert found.progressivity == pytest.approx(min(np.diff(entropies)), rel=1e-3, abs=1e-5)
    assert found.expressivity == pytest.approx(entropies[-1], rel=1e-4)


def test_the_entropy_of_directions() -> None:
    generator = torch.Generator().manual_seed(0)
    one = torch.randn(50, 1, 4, 4, generator=generator)
    assert direction_entropy(one) == pytest.approx(0.0, abs=1e-6)
    assert direction_entropy(torch.cat([one, -3 * one], dim=1)) == pytest.approx(0.0, abs=1e-4)
    assert direction_entropy(torch.randn(500, 5, 4, 4, generator=generator)) == pytest.approx(math.log(5), abs=1e-2)
    assert direction_entropy(torch.ones(3, 2, 4, 4)) == 0.0


def test_equal_images_have_no_naswot() -> None:
    assert activation_proxies(SKELETON, cell(CELL), IMAGES[:1].expand(4, -1, -1, -1)).naswot == -math.inf
