"""A BatchNorm in training mode whose second derivative costs what it should.

torch spells its second derivative out in some thirty passes over the feature map. With y = r (x - mean x), r = 1 / std,
means over everything but the channel, and the projection P z = z - mean z - y mean(z y):

    the gradient of <gy, y> in x is G = r P gy, and the gradient of <u, G> is
    in gy: A = r P u          in x: -r (mean(gy y) A + mean(u y) G + mean(u G) y).

A is the gradient of a BatchNorm again, and torch's kernel returns the sums of gy y and u y beside G and A.
"""

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class Running(NamedTuple):
    """The running statistics, if they are kept."""

    mean: Tensor | None
    var: Tensor | None


class Projection(NamedTuple):
    """r P z, and the sum of z y over each channel."""

    value: Tensor
    sum_z_y: Tensor


class Normalization(torch.autograd.Function):
    """y, updating the running statistics."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, running: Running, momentum: float, epsilon: float) -> Tensor:
        y, mean, r = torch.native_batch_norm(x, None, None, running.mean, running.var, True, momentum, epsilon)
        ctx.save_for_backward(x, mean, r)
        ctx.epsilon = epsilon
        return y

    @staticmethod
    def backward(ctx: Any, gy: Tensor) -> tuple[Tensor | None, ...]:
        return NormalizationGradient.apply(gy, *ctx.saved_tensors, ctx.epsilon), None, None, None


class NormalizationGradient(torch.autograd.Function):
    """G"""

    @staticmethod
    def forward(ctx: Any, gy: Tensor, x: Tensor, mean: Tensor, r: Tensor, epsilon: float) -> Tensor:
        g, sum_gy_y = project(gy, x, mean, r, epsilon)
        ctx.save_for_backward(g, sum_gy_y, x, mean, r)
        ctx.epsilon = epsilon
        return g

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, u: Tensor) -> tuple[Tensor | None, ...]:
        g, sum_gy_y, x, mean, r = ctx.saved_tensors
        a, sum_u_y = project(u, x, mean, r, ctx.epsilon)
        sum_u_g = (u * g).sum([d for d in range(x.dim()) if d != 1])
        weight = -r * r.numel() / x.numel()
        over_y = weight * sum_u_g * r
        gx = (a * over_channels(weight * sum_gy_y, x)).addcmul_(g, over_channels(weight * sum_u_y, x))
        gx.addcmul_(x, over_channels(over_y, x)).sub_(over_channels(over_y * mean, x))
        return a, gx, None, None, None


def project(z: Tensor, x: Tensor, mean: Tensor, r: Tensor, epsilon: float) -> Projection:
    """r P z, from the gradient kernel of torch."""
    value, sum_z_y, _ = torch.ops.aten.native_batch_norm_backward(
        z, x, None, None, None, mean, r, True, epsilon, [True, True, False]
    )
    return Projection(value, sum_z_y)


def over_channels(values: Tensor, x: Tensor) -> Tensor:
    """One value per channel, to be broadcast over x."""
    return values.reshape(1, -1, *[1] * (x.dim() - 2))


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """torch.nn.functional.batch_norm, under its own argument names."""
    plain = input.dtype in (torch.float32, torch.float64) and not torch.is_autocast_enabled(input.device.type)
    if not (training and plain and input.numel() > input.shape[1]):
        return torch.nn.functional.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    y = cast(Tensor, Normalization.apply(input, Running(running_mean, running_var), momentum, eps))
    y = y if weight is None else y * over_channels(weight, y)
    return y if bias is None else y + over_channels(bias, y)
