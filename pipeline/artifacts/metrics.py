"""metrics.json: how good the trained network is on the test images."""

from pipeline.artifacts.document import Document, Part
from pipeline.artifacts.fields import Count, NonNegative, Number, Sha256, Share


class ClassAccuracy(Part):
    """One class; without test images it has no accuracy."""

    label: str
    accuracy: Share | None
    images: Count


class ConfidenceBin(Part):
    """Answers whose confidence lies in one of the equal parts of 0…1."""

    confidence: Share
    accuracy: Share
    images: Count


class LearnedAugmentation(Part):
    """How often and how strongly images are augmented in one way, in the mean; 1 is the full range of the way."""

    kind: str
    probability: Share
    magnitude: Share


class AutodoFigures(Part):
    """What was learned about the training images; a gain is that of the holdout accuracy since the plain epochs."""

    learn: str
    guide_images: Count
    share_below_half: Share
    frozen: bool
    holdout_gain: Number | None
    augmentation: list[LearnedAugmentation] | None = None


class TeacherFigures(Part):
    """Whom the network learned from: its accuracy beside that of a linear probe, on images of `judged_on`.

    `kept` says whether its answers were computed once instead of at every step.
    """

    name: str
    sha256: Sha256
    weight: Share
    temperature: NonNegative
    accuracy: Share
    probe_accuracy: Share
    images: Count
    judged_on: str
    kept: bool

    def describe(self) -> str:
        """One line for people."""
        return (
            f"{self.name}, right on {self.accuracy:.1%} of {self.images} images from {self.judged_on}; weight "
            f"{self.weight:g}, temperature {self.temperature:g}"
        )


class Metrics(Document):
    """The one look at the test set, and how the weights came about."""

    name, maker = "metrics", "retrain"

    test_images: Count
    test_loss: NonNegative
    test_accuracy: Share
    test_top5: Share
    calibration_error: Share
    per_class: list[ClassAccuracy]
    confusion: list[list[Count]]
    calibration: list[ConfidenceBin]
    weights: str
    epochs: Count
    train_images: Count
    precision: str
    processes: Count
    autodo: AutodoFigures | None = None
    teacher: TeacherFigures | None = None
    start: str = "random"

    def describe_top5(self) -> str:
        """In brackets after the accuracy; nothing where classes are so few that guessing reaches more than half."""
        return f" (top-5 {self.test_top5:.2%})" if len(self.per_class) >= 10 else ""

    @property
    def largest_class_share(self) -> float:
        """What answering always the same reaches on the test images."""
        return max((row.images for row in self.per_class), default=0) / max(self.test_images, 1)
