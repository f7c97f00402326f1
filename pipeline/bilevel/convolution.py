"""A convolution whose second derivative costs what it should.

torch differentiates a grouped convolution twice in a loop over its groups, which is most of a Hessian product on a
network with depthwise convolutions. The bilinear map y = F(x, w) needs no loop: with A(gy, w) and B(gy, x) its adjoints
in x and w, its gradient is (A(gy, w), B(gy, x)), and the gradient of <u, A(gy, w)> + <s, B(gy, x)> is

    in gy: F(u, w) + F(x, s)      in x: A(gy, s)      in w: B(gy, u),

two convolutions and one gradient of a convolution. The numbers are torch's up to rounding.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class Geometry(NamedTuple):
    """How a convolution walks."""

    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]
    groups: int

    def forward(self, x: Tensor, w: Tensor) -> Tensor:
        """F(x, w)"""
        return torch.convolution(x, w, None, self.stride, self.padding, self.dilation, False, [0, 0], self.groups)

    def backward(self, gy: Tensor, x: Tensor, w: Tensor, wanted: Sequence[bool]) -> list[Tensor | None]:
        """A(gy, w) and B(gy, x), as far as wanted."""
        walk = (self.stride, self.padding, self.dilation, False, [0, 0], self.groups)
        gx, gw, _ = torch.ops.aten.convolution_backward(gy, x, w, None, *walk, [*wanted, False])
        return [gx, gw]


class Convolution(torch.autograd.Function):
    """F(x, w)"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, geometry: Geometry) -> Tensor:
        ctx.save_for_backward(x, w)
        ctx.geometry = geometry
        return geometry.forward(x, w)

    @staticmethod
    def backward(ctx: Any, gy: Tensor) -> tuple[Tensor | None, ...]:
        x, w = ctx.saved_tensors
        gx, gw = ConvolutionGradient.apply(gy, x, w, ctx.geometry, ctx.needs_input_grad[:2])
        return gx, gw, None


class ConvolutionGradient(torch.autograd.Function):
    """A(gy, w) and B(gy, x)"""

    @staticmethod
    def forward(ctx: Any, gy: Tensor, x: Tensor, w: Tensor, geometry: Geometry, wanted: Sequence[bool]) -> Any:
        ctx.save_for_backward(gy, x, w)
        ctx.geometry = geometry
        ctx.set_materialize_grads(False)
        return tuple(geometry.backward(gy, x, w, wanted))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, u: Tensor | None, s: Tensor | None) -> tuple[Tensor | None, ...]:
        gy, x, w = ctx.saved_tensors
        walk: Geometry = ctx.geometry
        needs_gy, needs_x, needs_w = ctx.needs_input_grad[:3]
        terms = [walk.forward(u, w)] if needs_gy and u is not None else []
        terms += [walk.forward(x, s)] if needs_gy and s is not None else []
        wanted = needs_x and s is not None, needs_w and u is not None
        gx, gw = (
            walk.backward(gy, x if u is None else u, w if s is None else s, wanted) if any(wanted) else (None, None)
        )
        return (sum(terms[1:], start=terms[0]) if terms else None), gx, gw, None, None


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """torch.conv2d, under its own argument names."""
    if isinstance(padding, str) or input.dim() != 4 or torch.is_autocast_enabled(input.device.type):
        return torch.conv2d(input, weight, bias, stride, padding, dilation, groups)
    geometry = Geometry(_pair(stride), _pair(padding), _pair(dilation), groups)
    y = cast(Tensor, Convolution.apply(input, weight, geometry))
    return y if bias is None else y + bias[:, None, None]


def _pair(value: int | Sequence[int]) -> Sequence[int]:
    return [value, value] if isinstance(value, int) else list(value) * (2 // len(value))
