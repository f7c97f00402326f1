"""Arrays of images brought to one shape: uint8, one or three channels, square at the wanted resolution."""

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from pipeline.memory import require_memory

# ITU-R 601 luma, the weights that Pillow's convert("L") uses
_LUMA = (0.299, 0.587, 0.114)
_CHUNK_VALUES = 1 << 26  # of which several are held as floats


def fit_images(images: Tensor, resolution: int, colour: bool, scale: float = 1.0) -> Tensor:
    """[N, C, H, W] of any real type times `scale` as uint8 [N, 1 or 3, resolution, resolution].

    A rectangle loses its longer ends (centre crop to a square) and is then resized, bilinear and antialiased:
    the same picture that `ImageOps.fit` makes of a file.
    """
    if (
        scale == 1.0
        and images.dtype == torch.uint8
        and images.shape[1:] == (3 if colour else 1, resolution, resolution)
    ):
        return images.contiguous()
    needed = 2 * len(images) * (3 if colour else 1) * resolution**2  # in parts, then together
    require_memory(needed, f"{len(images):,} images of {resolution} pixels a side", "[data] resolution")
    chunks = torch.split(images, max(_CHUNK_VALUES // (3 * resolution**2), 1))
    return torch.cat([_fit_chunk(chunk, resolution, colour, scale) for chunk in chunks])


def _fit_chunk(images: Tensor, resolution: int, colour: bool, scale: float) -> Tensor:
    pixels = crop_square(set_channels(images.to(torch.float32) * scale, colour))
    if pixels.shape[-1] != resolution:
        pixels = functional.interpolate(pixels, (resolution, resolution), mode="bilinear", antialias=True)
    return pixels.round().clamp(0, 255).to(torch.uint8)


def set_channels(pixels: Tensor, colour: bool) -> Tensor:
    """Grey repeated to three channels, or colour weighted to its luma; float [..., C, H, W]."""
    channels = pixels.shape[-3]
    if colour and channels == 1:
        return pixels.expand(*pixels.shape[:-3], 3, *pixels.shape[-2:])
    if not colour and channels == 3:
        return torch.einsum("...chw,c->...hw", pixels, pixels.new_tensor(_LUMA)).unsqueeze(-3)
    return pixels


def crop_square(images: Tensor) -> Tensor:
    """The centre square."""
    height, width = images.shape[-2:]
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    return images[..., top : top + side, left : left + side]


def as_tensor(array: np.ndarray) -> Tensor:
    """The array as a tensor that owns its memory, whatever its byte order and layout."""
    return torch.from_numpy(np.array(array, dtype=array.dtype.newbyteorder("="), order="C"))
