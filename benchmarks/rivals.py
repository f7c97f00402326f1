"""Networks a user would pick instead of a searched one, at any width, and the width at which one takes a given time."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any, NamedTuple

import torch
from torch import nn

from pipeline.latency.measure import Device, Effort, measure_models
from pipeline.latency.models import make_model, make_sentinel

Build = Callable[[float], nn.Module]
Shape = tuple[int, int, int]

_NARROWEST, _WIDEST, _HALVINGS = 0.1, 8.0, 9
_NEAR_ENOUGH = 0.03


class Fit(NamedTuple):
    """A width and the latency there over the latency that was wanted."""

    width: float
    ratio: float


def build_mobilenet(width: float) -> nn.Module:
    """timm's MobileNetV3-Small with a stem of stride 1, as one does for 32-pixel images."""
    from timm.models.mobilenetv3 import _gen_mobilenet_v3

    return _with_fine_stem(_gen_mobilenet_v3("mobilenetv3_small_100", width, num_classes=10))


def build_efficientnet(width: float) -> nn.Module:
    """timm's EfficientNet-Lite0 likewise."""
    from timm.models import efficientnet

    generate: Any = efficientnet._gen_efficientnet_lite
    return _with_fine_stem(generate("efficientnet_lite0", channel_multiplier=width, num_classes=10))


def _with_fine_stem(module: Any) -> nn.Module:
    module.conv_stem.stride = (1, 1)
    network: nn.Module = module
    return network


def build_plain(width: float) -> nn.Module:
    """Three stages of three 3x3 convolutions; width 1 has 32, 64 and 128 channels."""
    layers: list[nn.Module] = []
    before = 3
    for stage in range(3):
        channels = max(4, round(32 * 2**stage * width / 4) * 4)
        for place in range(3):
            stride = 2 if stage and place == 0 else 1
            layers += [nn.Conv2d(before, channels, 3, stride, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU()]
            before = channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 10))


RIVALS: dict[str, Build] = {
    "mobilenetv3_small": build_mobilenet,
    "efficientnet_lite0": build_efficientnet,
    "plain-cnn": build_plain,
}


def fit_width(device: Device, wanted: nn.Module, build: Build, shape: Shape, effort: Effort) -> Fit:
    """Bisect the width until the two, timed in turn in one session, take the same time; the nearest one seen."""
    low, high, seen = _NARROWEST, _WIDEST, []
    for _ in range(_HALVINGS):
        width = (low * high) ** 0.5
        p50_ms = measure_p50_ms(device, {"wanted": wanted, "rival": build(width)}, shape, effort)
        seen.append(Fit(width, p50_ms["rival"] / p50_ms["wanted"]))
        if abs(seen[-1].ratio - 1) <= _NEAR_ENOUGH:
            break
        low, high = (low, width) if seen[-1].ratio > 1 else (width, high)
    return min(seen, key=lambda fit: abs(fit.ratio - 1))


def measure_p50_ms(device: Device, modules: dict[str, nn.Module], shape: Shape, effort: Effort) -> dict[str, float]:
    """Latencies at batch 1, all taken in one session, so that they can be compared; the modules stay as they are."""
    models = {name: make_model(device, deepcopy(module), [torch.rand(1, *shape)]) for name, module in modules.items()}
    timings = measure_models(device, models, make_sentinel(device), effort).timings
    return {name: timing.p50_ms for name, timing in timings.items()}


def count_macs(module: nn.Module, shape: Shape) -> int:
    """Multiply-adds of one image; torch counts two operations for each."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter, torch.no_grad():
        deepcopy(module).eval()(torch.rand(1, *shape))
    return int(counter.get_total_flops()) // 2
