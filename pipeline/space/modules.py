"""The few modules that torch does not have."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class ShiftedHalves(nn.Module):
    """Two 1×1 convolutions of stride 2, the second shifted by one pixel, concatenated."""

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()
        self.even = nn.Conv2d(channels_in, channels_out // 2, 1, stride=2, bias=False)
        self.odd = nn.Conv2d(channels_in, channels_out - channels_out // 2, 1, stride=2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.even(x), self.odd(x[:, :, 1:, 1:])], dim=1)


class Zeros(nn.Module):
    """Nothing, in the shape that the stride gives."""

    def __init__(self, stride: int) -> None:
        super().__init__()
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :, :: self.stride, :: self.stride] * 0.0


class Summed(nn.Module):
    """Several paths from one input, added."""

    def __init__(self, paths: Sequence[nn.Module]) -> None:
        super().__init__()
        self.paths = nn.ModuleList(paths)

    def forward(self, x: Tensor) -> Tensor:
        total: Tensor = self.paths[0](x)
        for path in self.paths[1:]:
            total = total + path(x)
        return total


class Concatenate(nn.Module):
    """Concatenation over channels."""

    def forward(self, *xs: Tensor) -> Tensor:
        return torch.cat(xs, dim=1)
