"""Networks at other widths: counts by hand, the original at width 1, small images, and what cannot be widened."""

from itertools import pairwise
from typing import Any

import pytest
import timm
import torch
from torch import nn

from pipeline.errors import UserError
from pipeline.rivals.networks import build_plain, build_timm, builder_of, count_macs
from pipeline.rivals.widths import scaled, suit_small_images
from pipeline.space.skeleton import Skeleton

SMALL = Skeleton("darts", 3, 4, 16, 7, 1)
LARGE = Skeleton("darts", 3, 4, 128, 7, 3)


def parameters(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def test_channels_are_multiples_of_four() -> None:
    assert [scaled(32, width) for width in (1.0, 0.5, 0.01, 1.1, 2.0)] == [32, 16, 4, 36, 64]


def test_a_plain_network_has_the_counts_of_its_definition() -> None:
    network = build_plain(0.5, SMALL)
    channels = [1, 16, 16, 16, 32, 32, 32, 64, 64, 64]
    weights = sum(9 * a * b for a, b in pairwise(channels))
    assert parameters(network) == weights + 2 * sum(channels[1:]) + 64 * 7 + 7
    sizes = [16, 16, 16, 8, 8, 8, 4, 4, 4]
    macs = sum(9 * a * b * size**2 for (a, b), size in zip(pairwise(channels), sizes, strict=True))
    assert count_macs(network, SMALL) == macs + 64 * 7


@pytest.mark.parametrize("name", ["mobilenetv3_small_100", "efficientnet_lite0", "resnet18"])
def test_width_one_is_the_network_itself_and_others_scale(name: str) -> None:
    original = timm.create_model(name, in_chans=3, num_classes=7)
    ours = {width: build_timm(name, width, LARGE) for width in (0.5, 1.0, 2.0)}
    assert parameters(ours[1.0]) == parameters(original)
    assert parameters(ours[0.5]) < parameters(ours[1.0]) / 2.5 and parameters(ours[2.0]) > 2.5 * parameters(original)
    assert all(count_macs(network, LARGE) > 0 for network in ours.values())
    ours[0.5].train()
    loss = ours[0.5](torch.rand(2, 3, 128, 128)).square().mean()
    loss.backward()
    assert all(p.grad is not None for p in ours[0.5].parameters())


@pytest.mark.parametrize(("resolution", "smallest"), [(16, 4), (32, 4), (64, 4), (128, 4), (224, 7)])
@pytest.mark.parametrize("name", ["mobilenetv3_small_100", "resnet18"])
def test_small_images_keep_a_map_of_four_pixels(name: str, resolution: int, smallest: int) -> None:
    network, image = timm.create_model(name, in_chans=1, num_classes=7), torch.zeros(1, 1, resolution, resolution)
    suit_small_images(network, image)
    network.eval()
    features: Any = network.forward_features
    assert features(image).shape[-1] == smallest


def test_names_are_those_of_timm_with_the_full_width_understood() -> None:
    assert parameters(builder_of("mobilenetv3_small", SMALL)(1.0)) == parameters(
        builder_of("mobilenetv3_small_100", SMALL)(1.0)
    )
    with pytest.raises(UserError, match="timm knows no 'mobilnetv3_smal'; did you mean mobilenetv3_small"):
        builder_of("mobilnetv3_smal", SMALL)


@pytest.mark.parametrize("name", ["densenet121", "vit_tiny_patch16_224"])
def test_what_cannot_be_widened_is_refused_with_one_sentence(name: str) -> None:
    with pytest.raises(UserError, match=f"{name} cannot be"):
        build_timm(name, 0.7, SMALL)
