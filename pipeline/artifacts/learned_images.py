"""autodo.safetensors: what was learned of every training image."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from pipeline.artifacts.artifact import Typed
from pipeline.artifacts.tensors import pack, unpack

_VERSION = "schema"
_NEEDED = {"indices": torch.int64, "weights": torch.float32, "early_losses": torch.float32, "proposed": torch.int64}


@dataclass(frozen=True)
class LearnedImages(Typed):
    """A row per training image, by its number in the data; `labels` [images, classes] where soft labels were learned.

    Weights have a mean of 1; `proposed` is the class that the network took the image for after the plain epochs.
    """

    name, maker, optional = "learned_images", "retrain", True

    indices: Tensor
    weights: Tensor
    early_losses: Tensor
    proposed: Tensor
    labels: Tensor | None = None

    def _content(self) -> bytes:
        tensors = {name: value for name, value in vars(self).items() if value is not None}
        return pack(tensors, {_VERSION: str(self.version)})

    @classmethod
    def _parse(cls, content: bytes) -> Self:
        tensors, facts = unpack(content)
        cls._check_version(facts.get(_VERSION))
        found = {name: value.dtype for name, value in tensors.items() if name != "labels"}
        rows = {len(value) for value in tensors.values() if value.dim()}
        if found != _NEEDED or len(rows) != 1:
            raise ValueError(f"it must hold {', '.join(_NEEDED)} with a row per image")
        return cls(**tensors)
