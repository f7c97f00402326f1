"""λA: one affine warp per image, whose seven parts each have a probability p and a magnitude m of their own.

    effect_k = b_k · m_k · ε_k · range_k      b_k = 1 with probability p_k, else 0;  ε_k ~ N(0, 1)

p and m are sigmoids of raw numbers. b is a Gumbel-softmax of two classes at temperature 1: with g the difference of
their Gumbel noises, which is logistic, b is 1 where λ + g > 0, and it is differentiated as sigmoid(λ + g) would be
(straight-through). Pixel y of the output, its place measured from the centre in half sides, shows the source at

    S R D y + t      D scales the axes, R rotates, S shears, t moves.

A map from output to source needs no inverse, and all effects at 0 give the image itself.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

KINDS = ("rotation", "x translation", "y translation", "x shear", "y shear", "x scale", "y scale")
# 30 degrees; 0.45 of a side, which is two half sides; shear and change of scale as factors
_RANGES = (math.radians(30.0), 0.9, 0.9, 0.3, 0.3, 0.5, 0.5)
_START_PROBABILITY, _START_MAGNITUDE = 0.2, 0.5
# Pixels are squares, cut into so many pieces a side, the mean of which is a pixel again: a small image keeps its edges
# where sampling the pixels would blur them.
_PIECES, _LARGE = 4, 224
NUMBERS = 2 * len(KINDS)
"""Raw numbers per image: those of the probabilities, then those of the magnitudes."""


class Noise(NamedTuple):
    """What chance adds for some images, [B, 7] each: logistic numbers for b, normal ones for ε."""

    logistic: Tensor
    normal: Tensor


def draw_noise(images: int, device: torch.device, generator: torch.Generator | None = None) -> Noise:
    """From a generator of the CPU, or without one from the device's global generator."""
    place = device if generator is None else torch.device("cpu")
    uniform = torch.rand(images, len(KINDS), generator=generator, device=place)
    normal = torch.randn(images, len(KINDS), generator=generator, device=place)
    return Noise(torch.logit(uniform, eps=1e-6).to(device), normal.to(device))


def start_augmentation(images: int, device: torch.device) -> Tensor:
    """λA before anything was learned, [N, 14]."""
    start = torch.tensor([_START_PROBABILITY, _START_MAGNITUDE], device=device).logit()
    return start.repeat_interleave(len(KINDS)).repeat(images, 1)


def augmentation_of(raw: Tensor) -> Tensor:
    """Probabilities and magnitudes, [B, 14]."""
    return raw.sigmoid()


def augment(images: Tensor, raw: Tensor, noise: Noise) -> Tensor:
    """Images [B, C, R, R] warped as their λA and the noise say; differentiable in λA."""
    return warp(images, maps_of(effects_of(raw, noise)))


def effects_of(raw: Tensor, noise: Noise) -> Tensor:
    """b · m · ε · range, [B, 7]"""
    probabilities, magnitudes = raw.chunk(2, dim=1)
    soft = torch.sigmoid(probabilities + noise.logistic)
    chosen = (soft > 0.5).to(soft.dtype) + (soft - soft.detach())
    return chosen * magnitudes.sigmoid() * noise.normal * raw.new_tensor(_RANGES)


def maps_of(effects: Tensor) -> Tensor:
    """[S R D | t] of every image, [B, 2, 3]."""
    angle, x_move, y_move, x_shear, y_shear, x_scale, y_scale = effects.unbind(1)
    one, cos, sin = torch.ones_like(angle), angle.cos(), angle.sin()
    shear = _matrices(one, x_shear, y_shear, one)
    rotation = _matrices(cos, -sin, sin, cos)
    scaled = rotation * torch.stack([1 + x_scale, 1 + y_scale], 1)[:, None]
    return torch.cat([shear @ scaled, torch.stack([x_move, y_move], 1)[..., None]], 2)


def _matrices(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Tensor:
    """[[a, b], [c, d]] of every image."""
    return torch.stack([a, b, c, d], 1).view(-1, 2, 2)


def warp(images: Tensor, maps: Tensor) -> Tensor:
    """What every pixel shows by the map of its image; beyond the border lies the border's colour."""
    count, channels, height, width = images.shape
    pieces = 1 if height >= _LARGE else _PIECES
    fine = functional.interpolate(images, scale_factor=float(pieces), mode="nearest")
    places = functional.affine_grid(maps, [count, channels, pieces * height, pieces * width], align_corners=False)
    shown = functional.grid_sample(fine, places, padding_mode="border", align_corners=False)
    return functional.avg_pool2d(shown, pieces)
