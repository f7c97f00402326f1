"""The few modules that torch does not have."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pipeline.bilevel.convolution import conv2d


class DepthwiseConv2d(nn.Conv2d):
    """A depthwise convolution whose gradient takes no slow path on CPU.

    Dilated ones have a gradient of our own there (pipeline.bilevel.convolution), at stride 1, thinned out for others:
    output (i, j) at stride s is output (s·i, s·j) at stride 1.
    """

    def forward(self, x: Tensor) -> Tensor:
        if self.dilation[0] == 1 or not self.training or x.device.type != "cpu":
            return super().forward(x)
        step = int(self.stride[0])
        dense = conv2d(x, self.weight, self.bias, 1, self.padding, self.dilation, self.groups)
        return dense if step == 1 else dense[:, :, ::step, ::step]


class ShiftedHalves(nn.Module):
    """Two 1×1 convolutions of stride 2, the second shifted by one pixel, concatenated; `copies` times side by side."""

    def __init__(self, channels_in: int, channels_out: int, copies: int = 1) -> None:
        super().__init__()
        even, odd = channels_out // 2, channels_out - channels_out // 2
        self.copies = copies
        self.even, self.odd = (
            nn.Conv2d(copies * channels_in, copies * width, 1, stride=2, groups=copies, bias=False)
            for width in (even, odd)
        )

    @staticmethod
    def shift(x: Tensor) -> Tensor:
        """What the second convolution sees."""
        return x[:, :, 1:, 1:]

    @staticmethod
    def join(even: Tensor, odd: Tensor) -> Tensor:
        return torch.cat([even, odd], dim=1)

    def forward(self, x: Tensor) -> Tensor:
        even, odd = self.even(x), self.odd(self.shift(x))
        if self.copies == 1:
            return self.join(even, odd)
        halves = zip(even.chunk(self.copies, 1), odd.chunk(self.copies, 1), strict=True)
        return torch.cat([half for pair in halves for half in pair], dim=1)


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


class Residual(nn.Module):
    """x + branch(x); `drop_path` may drop the branch while training (stochastic depth)."""

    def __init__(self, branch: nn.Module) -> None:
        super().__init__()
        self.branch = branch
        self.drop_path: nn.Module = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = x + self.drop_path(self.branch(x))
        return y


class SqueezeExcite(nn.Module):
    """x · sigmoid(W₂ relu(W₁ mean x)) per channel; `copies` times side by side."""

    def __init__(self, channels: int, squeezed: int, copies: int = 1) -> None:
        super().__init__()
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(copies * channels, copies * squeezed, 1, groups=copies),
            nn.ReLU(),
            nn.Conv2d(copies * squeezed, copies * channels, 1, groups=copies),
            nn.Sigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = x * self.gate(x)
        return y
