"""Which training images a person should look at, by what a training found out about them.

They are ordered by their loss in the plain epochs, which finds wrong labels more surely than their weight does (see
benchmarks/results/wrong-labels.md); the weight stands beside it.
"""

from collections.abc import Callable, Sequence

from torch import Tensor

from pipeline.artifacts.suspects import ClassWeights, Suspect, Suspects
from pipeline.autodo.learner import Learned

_LEAST, _MOST = 200, 10_000
LOW_WEIGHT = 0.5


def find_suspects(
    learned: Learned, given: Tensor, labels: Sequence[str], file_of: Callable[[int], str | None]
) -> Suspects:
    """As many images as have another label proposed, but 200 at least and 10,000 at most; `given` are their classes."""
    count = min(max(int((learned.proposed != given).sum()), _LEAST), _MOST)
    rows = learned.early_losses.argsort(descending=True, stable=True)[:count].tolist()
    return Suspects(
        detector="early_loss",
        train_images=len(given),
        guide_accuracy=learned.guide_top1,
        suspects=[
            Suspect(
                index=int(learned.indices[row]),
                file=file_of(int(learned.indices[row])),
                label=labels[int(given[row])],
                proposed_label=labels[int(learned.proposed[row])],
                weight=float(learned.weights[row]),
                early_loss=float(learned.early_losses[row]),
            )
            for row in rows
        ],
        classes=[_describe_class(learned.weights[given == number], label) for number, label in enumerate(labels)],
    )


def share_below_half(weights: Tensor) -> float:
    """Share of images that count for less than half of the mean."""
    return float((weights < LOW_WEIGHT).double().mean()) if len(weights) else 0.0


def _describe_class(weights: Tensor, label: str) -> ClassWeights:
    mean = float(weights.double().mean()) if len(weights) else 0.0
    return ClassWeights(label=label, images=len(weights), mean_weight=mean, share_below_half=share_below_half(weights))
