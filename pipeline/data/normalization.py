"""From bytes to what a network is fed: floats in 0…1, then zero mean and unit spread per channel."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

WHITE = 255.0


def to_floats(images: Tensor) -> Tensor:
    """uint8 images as float32 in 0…1."""
    return images.to(torch.float32).div_(WHITE)


class Normalization:
    """(x − mean) / std per channel for pixels in 0…1, in the memory format of the network.

    With a `resolution` images are shrunk to so many pixels, each the mean of those it covers; 0 leaves them.
    """

    def __init__(
        self,
        mean: Sequence[float],
        std: Sequence[float],
        device: torch.device | str,
        channels_last: bool,
        resolution: int = 0,
    ) -> None:
        self.mean, self.std = (torch.tensor(values, device=device).view(1, -1, 1, 1) for values in (mean, std))
        self.format = torch.channels_last if channels_last else torch.contiguous_format
        self.resolution = resolution

    def __call__(self, images: Tensor) -> Tensor:
        images = (images - self.mean) / self.std
        if self.resolution and self.resolution != images.shape[-1]:
            images = functional.interpolate(images, size=self.resolution, mode="area")
        return images.contiguous(memory_format=self.format)
