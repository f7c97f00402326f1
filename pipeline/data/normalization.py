"""From bytes to what a network is fed: floats in 0…1, then zero mean and unit spread per channel."""

from collections.abc import Sequence

import torch
from torch import Tensor

WHITE = 255.0


def to_floats(images: Tensor) -> Tensor:
    """uint8 images as float32 in 0…1."""
    return images.to(torch.float32).div_(WHITE)


class Normalization:
    """(x − mean) / std per channel for pixels in 0…1, in the memory format of the network."""

    def __init__(
        self, mean: Sequence[float], std: Sequence[float], device: torch.device | str, channels_last: bool
    ) -> None:
        self.mean, self.std = (torch.tensor(values, device=device).view(1, -1, 1, 1) for values in (mean, std))
        self.format = torch.channels_last if channels_last else torch.contiguous_format

    def __call__(self, images: Tensor) -> Tensor:
        return ((images - self.mean) / self.std).contiguous(memory_format=self.format)
