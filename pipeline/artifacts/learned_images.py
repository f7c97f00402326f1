"""autodo.safetensors: what was learned of every training image."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from pipeline.artifacts.artifact import Typed
from pipeline.artifacts.tensors import pack, unpack

_VERSION = "schema"
_NEEDED = {"indices": torch.int64, "weights": torch.float32, "early_losses": torch.float32, "proposed": torch.int64}
_LEARNED = {"labels", "augmentation"}


@dataclass(frozen=True)
class LearnedImages(Typed):
    """A row per training image, by its number in the data.

    Weights have a mean of 1; `proposed` is the class that the network took the image for after the plain epochs. Where
    they were learned: `labels` [images, classes], and `augmentation` [images, 14], the probabilities and then the
    magnitudes of rotation, x and y translation, x and y shear, x and y scale.
    """

    name, maker, optional = "learned_images", "retrain", True

    indices: Tensor
    weights: Tensor
    early_losses: Tensor
    proposed: Tensor
    labels: Tensor | None = None
    augmentation: Tensor | None = None

    def _content(self) -> bytes:
        tensors = {name: value for name, value in vars(self).items() if value is not None}
        return pack(tensors, {_VERSION: str(self.version)})

    @classmethod
    def _parse(cls, content: bytes) -> Self:
        tensors, facts = unpack(content)
        cls._check_version(facts.get(_VERSION))
        found = {name: value.dtype for name, value in tensors.items() if name not in _LEARNED}
        rows = {len(value) for value in tensors.values() if value.dim()}
        if found != _NEEDED or len(rows) != 1 or not all(_is_table(tensors[name]) for name in _LEARNED & set(tensors)):
            raise ValueError(f"it must hold {', '.join(_NEEDED)} with a row per image")
        return cls(**tensors)


def _is_table(value: Tensor) -> bool:
    return value.dim() == 2 and value.dtype == torch.float32
