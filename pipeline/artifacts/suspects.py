"""suspects.json: training images whose label is likely wrong, for a person to look at."""

from typing import Literal

from pipeline.artifacts.document import Document, Part
from pipeline.artifacts.fields import Count, NonNegative, Share


class Suspect(Part):
    """An image; `index` is its row in the training data as given, `file` is null where these came as arrays."""

    index: Count
    file: str | None
    label: str
    proposed_label: str
    weight: NonNegative
    early_loss: NonNegative


class ClassWeights(Part):
    """The weights that the images of one given label have; their mean over all images is 1."""

    label: str
    images: Count
    mean_weight: NonNegative
    share_below_half: Share


class Suspects(Document):
    """The most suspicious image first, by `detector`; `guide_accuracy` is that of the network that proposes labels."""

    name, maker, optional = "suspects", "retrain", True

    detector: Literal["early_loss"]
    train_images: Count
    guide_accuracy: Share
    suspects: list[Suspect]
    classes: list[ClassWeights]
