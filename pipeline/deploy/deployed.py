"""The module that is deployed: raw pixels in, logits out."""

from collections.abc import Sequence

import torch
from torch import Tensor

from pipeline.artifacts.trained import Trained
from pipeline.data.normalization import WHITE, Normalization, to_floats
from pipeline.space.folding import Affine, FromPixels, ScaleShift, fold_batch_norms


class Deployed(FromPixels):
    """Normalization and the folded network; pixels are float32 in 0…1, or uint8 in 0…255 if `uint8_input`."""

    def __init__(self, trained: Trained, uint8_input: bool) -> None:
        normalize = _normalization(trained.mean, trained.std, WHITE if uint8_input else 1.0)
        super().__init__(normalize, fold_batch_norms(trained.network))
        self.skeleton, self.uint8_input = trained.network.skeleton, uint8_input
        self.requires_grad_(False)

    def example(self) -> Tensor:
        """One image of zeros."""
        shape = (1, self.skeleton.in_channels, self.skeleton.resolution, self.skeleton.resolution)
        return torch.zeros(shape, dtype=torch.uint8 if self.uint8_input else torch.float32)


def _normalization(mean: Sequence[float], std: Sequence[float], white: float) -> ScaleShift:
    """(x / white − mean) / std, as one scale and one shift."""
    means, stds = torch.tensor(mean, dtype=torch.float64), torch.tensor(std, dtype=torch.float64)
    return ScaleShift(Affine(1 / (white * stds), -means / stds))


def reference_logits(trained: Trained, images: Tensor) -> Tensor:
    """What the trained network says about uint8 images; nothing folded, nothing of `Deployed` used."""
    normalize = Normalization(trained.mean, trained.std, "cpu", channels_last=False)
    with torch.no_grad():
        logits: Tensor = trained.network(normalize(to_floats(images)))
    return logits
