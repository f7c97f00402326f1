"""The skeleton of a network: how many cells, how wide, and what goes in and out."""

from dataclasses import dataclass
from typing import Literal

Stem = Literal["auto", "cifar", "imagenet"]
IMAGENET_STEM_FROM_PX = 96


@dataclass(frozen=True)
class Skeleton:
    """The network around the cells. `stem="auto"` divides the resolution by 8 first from 96 px on."""

    space: str
    cells: int
    channels: int
    resolution: int
    classes: int
    in_channels: int = 3
    stem: Stem = "auto"

    @property
    def imagenet_stem(self) -> bool:
        return self.stem == "imagenet" or (self.stem == "auto" and self.resolution >= IMAGENET_STEM_FROM_PX)
