"""The form in which networks are deployed and timed: pixels are normalized first, and no BatchNorm is left.

BatchNorm in evaluation mode is y = scale·x + shift per channel: absorbed by the convolutions before it.
"""

import copy
from typing import NamedTuple

import torch
from torch import Tensor, nn

from pipeline.space.modules import ShiftedHalves


class Affine(NamedTuple):
    """Per channel, in float64."""

    scale: Tensor
    shift: Tensor


class ScaleShift(nn.Module):
    """scale·x + shift per channel: what remains of a BatchNorm that has no convolution to go into."""

    scale: Tensor
    shift: Tensor

    def __init__(self, affine: Affine, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.register_buffer("scale", affine.scale.to(dtype).view(-1, 1, 1))
        self.register_buffer("shift", affine.shift.to(dtype).view(-1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale + self.shift


class FromPixels(nn.Module):
    """A network behind the normalization of its pixels: float32 in 0…1, or uint8 in 0…255 where that is scaled for."""

    def __init__(self, normalize: ScaleShift, network: nn.Module) -> None:
        super().__init__()
        self.normalize, self.network = normalize, network

    def forward(self, pixels: Tensor) -> Tensor:
        logits: Tensor = self.network(self.normalize(pixels.to(torch.float32)))
        return logits


def fold_batch_norms(module: nn.Module) -> nn.Module:
    """A copy in evaluation mode that computes the same without any BatchNorm2d.

    Kinds of one that are not it, such as timm's with an activation inside, are left as they are.
    """
    folded = copy.deepcopy(module).eval()
    for part in [part for part in folded.modules() if isinstance(part, nn.Sequential)]:
        _fold_sequence(part)
    for name, part in list(folded.named_modules()):
        if type(part) is nn.BatchNorm2d:
            assert part.running_var is not None
            folded.set_submodule(name, ScaleShift(_affine_of(part), part.running_var.dtype))
    return folded


def _fold_sequence(sequence: nn.Sequential) -> None:
    """Absorb every BatchNorm that directly follows a convolution, or two concatenated ones."""
    for index in range(len(sequence) - 1, 0, -1):
        norm, before = sequence[index], sequence[index - 1]
        if type(norm) is not nn.BatchNorm2d:
            continue
        if isinstance(before, nn.Conv2d):
            sequence[index - 1] = _absorb(before, _affine_of(norm))
        elif isinstance(before, ShiftedHalves):
            scale, shift = _affine_of(norm)
            cut = before.even.out_channels
            before.even = _absorb(before.even, Affine(scale[:cut], shift[:cut]))
            before.odd = _absorb(before.odd, Affine(scale[cut:], shift[cut:]))
        else:
            continue
        sequence[index] = nn.Identity()


def _affine_of(norm: nn.BatchNorm2d) -> Affine:
    """scale = weight / √(var + eps), shift = bias − scale·mean."""
    assert norm.running_mean is not None and norm.running_var is not None
    scale = (norm.running_var.double() + norm.eps).rsqrt()
    if norm.affine:
        scale = scale * norm.weight.detach().double()
    shift = -scale * norm.running_mean.double()
    if norm.affine:
        shift = shift + norm.bias.detach().double()
    return Affine(scale, shift)


def _absorb(conv: nn.Conv2d, affine: Affine) -> nn.Conv2d:
    """The convolution with every output channel scaled and shifted."""
    absorbed = copy.deepcopy(conv)
    weight = conv.weight.detach().double() * affine.scale.view(-1, 1, 1, 1)
    bias = affine.shift if conv.bias is None else affine.shift + affine.scale * conv.bias.detach().double()
    absorbed.weight = nn.Parameter(weight.to(conv.weight.dtype), requires_grad=False)
    absorbed.bias = nn.Parameter(bias.to(conv.weight.dtype), requires_grad=False)
    return absorbed
