"""How good a trained classifier is: accuracy, per class and in all, what it confuses, and whether to believe it."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pipeline.artifacts.metrics import Metrics
from pipeline.data import ImageSet, batches
from pipeline.data.normalization import Normalization

_BINS = 15
_EVALUATION_BATCH = 256
_Z = 1.959964  # of the normal distribution, 95 % of which lie within ± so many standard deviations


class Predictions(NamedTuple):
    """Logits [images, classes] and labels [images], on the CPU."""

    logits: Tensor
    labels: Tensor


class Bin(NamedTuple):
    """Answers whose confidence lies in one of the equal parts of 0…1."""

    confidence: float
    accuracy: float
    images: int


@dataclass(frozen=True)
class Measures:
    """Shares lie in 0…1. `confusion[i][j]` counts images of class i taken for class j.

    The calibration error is Σ images_b / images · |accuracy_b − confidence_b| over bins b of confidence.
    """

    images: int
    loss: float
    top1: float
    top5: float
    per_class: tuple[float | None, ...]
    confusion: tuple[tuple[int, ...], ...]
    calibration: tuple[Bin, ...]
    calibration_error: float

    def record(self, labels: tuple[str, ...]) -> dict[str, Any]:
        """As metrics.json holds it; a class without test images has no accuracy."""
        return {
            "test_images": self.images,
            "test_loss": self.loss,
            "test_accuracy": self.top1,
            "test_top5": self.top5,
            "calibration_error": self.calibration_error,
            "per_class": [
                {"label": label, "accuracy": share, "images": sum(row)}
                for label, share, row in zip(labels, self.per_class, self.confusion, strict=True)
            ],
            "confusion": [list(row) for row in self.confusion],
            "calibration": [part._asdict() for part in self.calibration],
        }


def predict(network: nn.Module, images: ImageSet, normalize: Normalization, workers: int = 0) -> Predictions:
    """The network's answers to all images, in evaluation mode and in float32; its mode is put back."""
    training = network.training
    network.eval()
    logits, labels = [], []
    device = normalize.mean.device
    try:
        with torch.no_grad():
            for batch in batches(
                images, _EVALUATION_BATCH, seed=0, epoch=0, shuffle=False, workers=workers, device=device
            ):
                logits.append(network(normalize(batch.images)).float().cpu())
                labels.append(batch.labels.cpu())
    finally:
        network.train(training)
    return Predictions(torch.cat(logits), torch.cat(labels))


def measure(predictions: Predictions) -> Measures:
    """All figures of a set of answers; top-5 is top-n where there are only n < 5 classes."""
    logits, labels = predictions.logits.double(), predictions.labels
    classes = logits.shape[1]
    answers = logits.argmax(1)
    right = answers == labels
    among = (logits.topk(min(5, classes)).indices == labels[:, None]).any(1)
    confusion = torch.bincount(labels * classes + answers, minlength=classes**2).view(classes, classes)
    totals = confusion.sum(1)
    calibration = _calibrate(logits.softmax(1).amax(1), right)
    return Measures(
        images=len(labels),
        loss=float(nn.functional.cross_entropy(logits, labels)),
        top1=float(right.double().mean()),
        top5=float(among.double().mean()),
        per_class=tuple(int(confusion[c, c]) / int(totals[c]) if int(totals[c]) else None for c in range(classes)),
        confusion=tuple(tuple(row) for row in confusion.tolist()),
        calibration=calibration,
        calibration_error=sum(b.images * abs(b.accuracy - b.confidence) for b in calibration) / len(labels),
    )


class ShareInterval(NamedTuple):
    """An interval of a share."""

    low: float
    high: float


def wilson_interval(share: float, count: int) -> ShareInterval:
    """The 95 % interval of a share that was found in `count` trials (Wilson, 1927): sound near 0 and 1 too."""
    squared = _Z**2 / count
    centre = (share + squared / 2) / (1 + squared)
    half = _Z / (1 + squared) * (share * (1 - share) / count + squared / (4 * count)) ** 0.5
    return ShareInterval(max(centre - half, 0.0), min(centre + half, 1.0))


def describe_chance(metrics: Metrics) -> str:
    """A sentence where the network may be no better than answering always the most frequent class."""
    share = metrics.largest_class_share
    if wilson_interval(metrics.test_accuracy, metrics.test_images).low > share:
        return ""
    return (
        f"no better than chance: answering always the most frequent class is right on {share:.0%} of the test images; "
        "train for more epochs, or look at the data with `pipeline check`"
    )


def _calibrate(confidence: Tensor, right: Tensor) -> tuple[Bin, ...]:
    """Bins of confidence that hold any answer."""
    numbers = (confidence * _BINS).long().clamp(0, _BINS - 1)
    bins = []
    for number in range(_BINS):
        members = numbers == number
        if members.any():
            bins.append(
                Bin(float(confidence[members].mean()), float(right[members].double().mean()), int(members.sum()))
            )
    return tuple(bins)
