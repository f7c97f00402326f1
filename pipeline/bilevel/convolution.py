"""A convolution whose first and second derivatives cost what they should.

torch differentiates a grouped convolution twice in a loop over its groups, which is most of a Hessian product on a
network with depthwise convolutions. The bilinear map y = F(x, w) needs no loop: with A(gy, w) and B(gy, x) its adjoints
in x and w, its gradient is (A(gy, w), B(gy, x)), and the gradient of <u, A(gy, w)> + <s, B(gy, x)> is

    in gy: F(u, w) + F(x, s)      in x: A(gy, s)      in w: B(gy, u),

two convolutions and one gradient of a convolution.

The first derivative of a dilated depthwise convolution takes a slow path on CPU: 33 ms at 96 × 144 × 8² with 5×5, where
the convolution itself takes 0.2. Where it keeps the size, A(gy, ·) is a convolution with the kernel turned round. And
dilation d only ever joins pixels whose rows, and columns, are equal modulo d: the d² images of such pixels, side by
side in the batch, have the same B without dilation. All numbers are torch's up to rounding.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

_LARGEST_SPLIT = 16  # pixels a side: from 32 on torch's own path is faster


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
        if self._is_dilated_depthwise(x, w):
            gx = self.forward(gy, w.flip(2, 3)) if wanted[0] else None
            return [gx, self._weight_gradient(gy, x, w) if wanted[1] else None]
        return self._torch_backward(gy, x, w, wanted)

    def _torch_backward(self, gy: Tensor, x: Tensor, w: Tensor, wanted: Sequence[bool]) -> list[Tensor | None]:
        walk = (self.stride, self.padding, self.dilation, False, [0, 0], self.groups)
        gx, gw, _ = torch.ops.aten.convolution_backward(gy, x, w, None, *walk, [*wanted, False])
        return [gx, gw]

    def _is_dilated_depthwise(self, x: Tensor, w: Tensor) -> bool:
        """On CPU, one filter per channel, as large an output as input, and the same dilation both ways."""
        d, k = self.dilation[0], w.shape[2]
        same_size = all(2 * p == d * (k - 1) for p in self.padding) and k % 2 == 1
        return (
            x.device.type == "cpu"
            and d > 1
            and self.groups == x.shape[1] == w.shape[0]
            and list(self.stride) == [1, 1]
            and self.dilation[1] == d
            and w.shape[3] == k
            and same_size
        )

    def _weight_gradient(self, gy: Tensor, x: Tensor, w: Tensor) -> Tensor | None:
        """B(gy, x), of undilated images where those are small enough to gain by it."""
        if max(x.shape[2:]) > _LARGEST_SPLIT:
            return self._torch_backward(gy, x, w, [False, True])[1]
        d = self.dilation[0]
        undilated = self._replace(padding=[w.shape[2] // 2] * 2, dilation=[1, 1])
        return undilated._torch_backward(_split_by_phase(gy, d), _split_by_phase(x, d), w, [False, True])[1]


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


def _split_by_phase(x: Tensor, d: int) -> Tensor:
    """The d² images of every d-th pixel of x, in the batch; zeros make a side divisible, as padding would."""
    height, width = (-size % d for size in x.shape[2:])
    whole = torch.nn.functional.pad(x, (0, width, 0, height)) if height or width else x
    n, c, h, w = whole.shape
    phases = whole.permute(0, 2, 3, 1).reshape(n, h // d, d, w // d, d, c).permute(2, 4, 0, 1, 3, 5)
    return phases.reshape(d * d * n, h // d, w // d, c).permute(0, 3, 1, 2)


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
