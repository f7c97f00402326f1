"""Any convolutional network at another width, and on small images: the same graph with every layer made over.

A width w takes c channels to about w·c everywhere, so that what is summed still fits; what is concatenated may not.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from pipeline.errors import UserError

_DIVISOR = 4
_SMALLEST_MAP_PX = 4  # what the last convolutions of an image network should at least see
Build = Callable[[float], nn.Module]
Strided = nn.Conv2d | nn.MaxPool2d | nn.AvgPool2d


def scaled(channels: int, width: float) -> int:
    """So many channels at a width: a multiple of 4, at least 4."""
    return max(_DIVISOR, round(channels * width / _DIVISOR) * _DIVISOR)


def set_width(network: nn.Module, width: float, in_channels: int, classes: int) -> None:
    """Give every convolution, normalization and linear layer w times its channels, image and classes excepted."""
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):
            _widen_convolution(layer, width, in_channels)
        elif isinstance(layer, nn.BatchNorm2d):
            _widen_normalization(layer, width)
        elif isinstance(layer, nn.Linear):
            layer.in_features = scaled(layer.in_features, width)
            if layer.out_features != classes:
                layer.out_features = scaled(layer.out_features, width)
            layer.weight = nn.Parameter(torch.empty(layer.out_features, layer.in_features))
            layer.bias = None if layer.bias is None else nn.Parameter(torch.empty(layer.out_features))
    initialize(network)


def _widen_convolution(layer: nn.Conv2d, width: float, in_channels: int) -> None:
    depthwise = layer.groups == layer.in_channels > 1
    if layer.in_channels != in_channels or depthwise:
        layer.in_channels = scaled(layer.in_channels, width)
    layer.out_channels = scaled(layer.out_channels, width)
    if depthwise:
        layer.groups = layer.in_channels
    if layer.in_channels % layer.groups or layer.out_channels % layer.groups:
        raise UserError("its grouped convolutions leave no room for this width")
    shape = (layer.out_channels, layer.in_channels // layer.groups, *layer.kernel_size)
    layer.weight = nn.Parameter(torch.empty(shape))
    layer.bias = None if layer.bias is None else nn.Parameter(torch.empty(layer.out_channels))


def _widen_normalization(layer: nn.BatchNorm2d, width: float) -> None:
    count = layer.num_features = scaled(layer.num_features, width)
    layer.running_mean, layer.running_var = torch.zeros(count), torch.ones(count)
    if layer.affine:
        layer.weight, layer.bias = nn.Parameter(torch.ones(count)), nn.Parameter(torch.zeros(count))


def initialize(network: nn.Module) -> None:
    """Weights as EfficientNets start: normal with variance 2 / fan-out, the last layer uniform."""
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):
            fan_out = math.prod(layer.kernel_size) * layer.out_channels / layer.groups
            nn.init.normal_(layer.weight, 0.0, math.sqrt(2.0 / fan_out))
        elif isinstance(layer, nn.Linear):
            bound = 1.0 / math.sqrt(layer.out_features)
            nn.init.uniform_(layer.weight, -bound, bound)
        elif isinstance(layer, nn.BatchNorm2d) and layer.affine:
            nn.init.ones_(layer.weight)
        if isinstance(layer, nn.Conv2d | nn.Linear | nn.BatchNorm2d) and layer.bias is not None:
            nn.init.zeros_(layer.bias)


def suit_small_images(network: nn.Module, image: Tensor) -> None:
    """Drop the first strides until the last map is 4 px, as one does for images smaller than a network is meant for."""
    while True:
        levels = sorted({resolution for resolution, _ in _strided(network, image)})
        if not levels or image.shape[-1] / 2 ** len(levels) >= _SMALLEST_MAP_PX:
            return
        for resolution, layer in _strided(network, image):
            if resolution == levels[-1]:
                if isinstance(layer, nn.Conv2d):
                    layer.stride = (1, 1)
                else:
                    layer.stride = layer.kernel_size = 1
                    layer.padding = 0


def _strided(network: nn.Module, image: Tensor) -> list[tuple[int, Strided]]:
    """Layers that halve the resolution, with the resolution they see."""
    seen: list[tuple[int, Strided]] = []

    def note(layer: Strided, inputs: tuple[Tensor, ...]) -> None:
        seen.append((inputs[0].shape[-1], layer))

    halving = [layer for layer in network.modules() if isinstance(layer, Strided) and _stride(layer) > 1]
    hooks = [layer.register_forward_pre_hook(note) for layer in halving]
    try:
        try_out(network, image)
    finally:
        for hook in hooks:
            hook.remove()
    return seen


def _stride(layer: Strided) -> int:
    return layer.stride if isinstance(layer.stride, int) else layer.stride[0]


def try_out(network: nn.Module, image: Tensor) -> Tensor:
    """The network's answer to one image, in evaluation mode and without gradients."""
    network.eval()
    with torch.no_grad():
        answer: Tensor = network(image)
    return answer
