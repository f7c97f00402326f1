"""What retrain leaves about the training images themselves: suspects for people, weights and labels for programs."""

from torch import Tensor

from pipeline.artifacts.learned_images import LearnedImages
from pipeline.artifacts.metrics import AutodoFigures, LearnedAugmentation
from pipeline.autodo.augmentation import KINDS
from pipeline.autodo.learner import Learned
from pipeline.autodo.suspects import find_suspects, share_below_half
from pipeline.console import say
from pipeline.report.pictures.suspects import draw_suspects, draw_weights
from pipeline.stages.context import Context
from pipeline.training.job import Job, Outcome


def write_learned(context: Context, learned: Learned) -> None:
    """autodo.safetensors, suspects.json, suspects.png and weights.png."""
    data, run = context.data, context.run
    given = data.pool.targets[learned.indices]
    found = find_suspects(learned, given, data.labels, data.pool.images.name)
    context.write(found)
    context.write(
        LearnedImages(
            learned.indices,
            learned.weights,
            learned.early_losses,
            learned.proposed,
            learned.labels,
            learned.augmentation,
        )
    )
    draw_suspects(run.suspect_sheet, found.suspects, data.pool.images)
    draw_weights(run.weight_picture, learned.weights, given, data.labels)
    other = sum(suspect.label != suspect.proposed_label for suspect in found.suspects)
    say(
        f"after the plain epochs the network takes {other} of {len(given)} training images for another class than "
        f"their label says (it is right on {found.guide_accuracy:.0%} of the guide); the most suspicious are in "
        f"{run.suspect_sheet}, more in {run.suspects.name} beside it"
    )


def forget_learned(context: Context) -> None:
    """Remove what an earlier training left that learned about its images."""
    run = context.run
    for path in (run.learned_images, run.suspects, run.suspect_sheet, run.weight_picture):
        path.unlink(missing_ok=True)


def summarize_learned(job: Job, outcome: Outcome, learned: Learned) -> AutodoFigures:
    """Figures for metrics.json."""
    holdout = [entry["holdout_top1"] for entry in outcome.history if entry.get("holdout_top1") is not None]
    start = job.autodo.start_epoch
    return AutodoFigures(
        learn=job.autodo.learn,
        guide_images=0 if job.guide is None else len(job.guide),
        share_below_half=share_below_half(learned.weights),
        frozen=learned.frozen,
        holdout_gain=holdout[-1] - holdout[start - 1] if len(holdout) > start else None,
        augmentation=None if learned.augmentation is None else _summarize_augmentation(learned.augmentation),
    )


def _summarize_augmentation(values: Tensor) -> list[LearnedAugmentation]:
    probabilities, magnitudes = values.double().mean(0).view(2, -1).tolist()
    return [
        LearnedAugmentation(kind=kind, probability=p, magnitude=m)
        for kind, p, m in zip(KINDS, probabilities, magnitudes, strict=True)
    ]
