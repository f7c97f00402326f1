"""[autodo]: what may be learned about the training images themselves."""

from typing import Annotated, Any, Literal

from pydantic import Field

from pipeline.section import WITHOUT_EFFECT, BatchSize, Count, Positive, Rate, Section, Share, Terms

Learn = Literal["off", "weights", "weights+labels", "weights+labels+augmentation"]


class AutodoConfig(Section):
    """Training that finds wrong labels and works around them: a weight and a soft label for every image."""

    learn: Learn = "off"
    """What retrain learns of every training image: off, weights, weights+labels (a weight and a soft label), or
    weights+labels+augmentation (how it is turned, moved, sheared and scaled as well). What it suspects goes to
    suspects.json and suspects.png."""
    guide: Annotated[str, WITHOUT_EFFECT] = ""
    """Images with labels that you have checked, by which the others are judged: a folder like that of [data] path, or
    an .npz file; relative to pipeline.toml. Wrong labels here do more harm than in the training images."""
    guide_share: Share = 0.0
    """Instead of a guide of its own: share of the training images taken for it; only if you vouch for their labels."""
    start_epoch: Count = 10
    """Plain epochs before learning about the images starts; the losses of these epochs find most wrong labels."""
    neumann_terms: Terms = 5
    """Terms of the Neumann series after the first."""
    gamma: Rate = 0.01
    """Step of the Neumann series."""
    lr: Rate = 0.05
    """Peak rate of RMSprop on what is learned; it falls to a thousandth along a cosine, after a short warm-up."""
    batch_size: BatchSize = 1024
    """Training images, and guide images, per step of this learning, over all processes; few guide images are a noisy
    judge. Lower it if memory runs out: learned augmentation takes as much as a training step of this size."""
    label_start: Annotated[float, Field(gt=0.0, lt=1.0, allow_inf_nan=False)] = 0.1
    """How soft the labels are at first: 1 - a + a/classes on the given one."""
    max_memory_gb: Annotated[Positive, WITHOUT_EFFECT] = 2.0
    """Largest memory for what is learned; a soft label is a number per image and class."""

    def effective(self) -> dict[str, Any]:
        """Where nothing is learned, nothing else has an effect."""
        return super().effective() if self.is_on else {"learn": self.learn}

    @property
    def is_on(self) -> bool:
        return self.learn != "off"

    @property
    def parts(self) -> frozenset[str]:
        """What is learned: weights, labels, augmentation."""
        return frozenset(self.learn.split("+")) - {"off"}
