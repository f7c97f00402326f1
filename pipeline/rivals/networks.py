"""Rivals by name: any convolutional network of timm, or a plain stack of 3×3 convolutions, at any width."""

import torch
from torch import nn

from pipeline.errors import UserError
from pipeline.rivals.widths import Build, initialize, scaled, set_width, suit_small_images, try_out
from pipeline.space.skeleton import Skeleton
from pipeline.training.timm_network import near_names

PLAIN, RANDOM = "plain", "random"
_FULL_WIDTH = "_100"  # with which timm ends the names of networks that come in several widths
_PLAIN_STAGES, _PLAIN_LAYERS, _PLAIN_CHANNELS, _PLAIN_PX = 3, 3, 32, 48


def builder_of(name: str, skeleton: Skeleton) -> Build:
    """What builds a rival at any width, for the images and classes of the skeleton; unknown names are refused."""
    if name == PLAIN:
        return lambda width: build_plain(width, skeleton)
    known = _timm_name(name)
    return lambda width: build_timm(known, width, skeleton)


def _timm_name(name: str) -> str:
    import timm

    for full in (name, f"{name}{_FULL_WIDTH}"):
        if timm.is_model(full):
            return full
    raise UserError(f"--rivals: timm knows no {name!r}; {near_names(name)}{PLAIN} and {RANDOM} are rivals too")


def build_timm(name: str, width: float, skeleton: Skeleton) -> nn.Module:
    """timm's network with every layer `width` times as wide; what cannot be made so is refused."""
    import timm

    image = torch.zeros(1, skeleton.in_channels, skeleton.resolution, skeleton.resolution)
    try:
        network: nn.Module = timm.create_model(name, in_chans=skeleton.in_channels, num_classes=skeleton.classes)
        suit_small_images(network, image)
        set_width(network, width, skeleton.in_channels, skeleton.classes)
        answer = try_out(network, image)
    except UserError as error:
        raise UserError(f"--rivals: {name} cannot be widened: {error}; take another") from None
    except (RuntimeError, TypeError, ValueError, AssertionError, AttributeError, IndexError):
        raise UserError(
            f"--rivals: {name} cannot be made {width:.2g} times as wide for images of {skeleton.resolution} px; take a "
            f"network of plain or depthwise convolutions, such as mobilenetv3_small or resnet18"
        ) from None
    if answer.shape != (1, skeleton.classes):
        raise UserError(f"--rivals: {name} is no classifier; take another")
    return network


def build_plain(width: float, skeleton: Skeleton) -> nn.Module:
    """Three stages of three 3×3 convolutions, 32, 64 and 128 channels at width 1; large images are halved first."""
    layers: list[nn.Module] = []
    channels, resolution = skeleton.in_channels, skeleton.resolution

    def add(out: int, stride: int) -> None:
        nonlocal channels
        layers.extend([nn.Conv2d(channels, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU()])
        channels = out

    while resolution > _PLAIN_PX:
        add(scaled(_PLAIN_CHANNELS, width), 2)
        resolution //= 2
    for stage in range(_PLAIN_STAGES):
        for place in range(_PLAIN_LAYERS):
            add(scaled(_PLAIN_CHANNELS * 2**stage, width), 2 if stage and place == 0 else 1)
    network = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, skeleton.classes))
    initialize(network)
    return network


def count_macs(network: nn.Module, skeleton: Skeleton) -> int:
    """Multiply-adds of convolutions and linear layers for one image; torch counts two operations for each."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        try_out(network, torch.zeros(1, skeleton.in_channels, skeleton.resolution, skeleton.resolution))
    return int(counter.get_total_flops()) // 2
