"""How good a teacher is, before anybody learns from it."""

from dataclasses import replace

import torch

from pipeline.artifacts.metrics import TeacherFigures
from pipeline.console import say
from pipeline.data import ImageSet, batches
from pipeline.data.splits import cut
from pipeline.errors import UserError
from pipeline.stages.context import Context
from pipeline.stages.parts import Parts
from pipeline.training.distillation import may_cache
from pipeline.training.linear_probe import evenly_spaced, probe_accuracy
from pipeline.training.teacher import Teacher

_JUDGED_IMAGES = 1000
_JUDGED_SHARE = 0.1  # of the training images, where none are held out
_BATCH = 100


def judge(teacher: Teacher, parts: Parts, context: Context) -> TeacherFigures:
    """How good the teacher is, and a linear probe, on images kept aside; a worse one is named.

    Without a holdout a tenth of the training images is judged by, which the probe does not learn from.
    """
    settings, train, judged = context.config.retrain, parts.train, parts.holdout
    if judged is None:
        kept, taken = cut(train.indices, train.targets, _JUDGED_SHARE, context.data.seed)
        train, judged = replace(train, indices=kept), replace(train, indices=taken)
    judged = replace(judged, indices=evenly_spaced(judged, _JUDGED_IMAGES))
    where = "the training images, which it may have seen" if parts.holdout is None else "the holdout"
    accuracy, probe = _accuracy(teacher, judged, context.config.compute.workers), probe_accuracy(train, judged)
    say(f"the teacher {teacher.name} is right on {accuracy:.1%} of {len(judged)} images from {where}")
    if accuracy < probe:
        say(
            f"a plain linear probe on the pixels is right on {probe:.1%} of them: this teacher is worse and will teach "
            "little; are its classes in the order of the data, and its pixels normalized as it wants "
            "([retrain] teacher_mean, teacher_std)?"
        )
    augment = settings.augment or context.config.data.augment
    return TeacherFigures(
        name=teacher.name,
        sha256=teacher.sha256,
        weight=settings.teacher_weight,
        temperature=settings.temperature,
        accuracy=accuracy,
        probe_accuracy=probe,
        images=len(judged),
        judged_on=where,
        kept=may_cache(settings, augment, len(parts.train), context.data.classes),
    )


def _accuracy(teacher: Teacher, images: ImageSet, workers: int) -> float:
    right, device = 0, teacher.view.mean.device
    for batch in batches(images, _BATCH, seed=0, epoch=0, shuffle=False, workers=workers, device=device):
        answers = teacher(batch.images)
        if not torch.isfinite(answers).all():
            raise UserError(
                f"the teacher {teacher.name} answers with numbers that are not finite; its file is damaged, or its "
                "normalization is not that of [retrain] teacher_mean and teacher_std"
            )
        right += int((answers.argmax(1) == batch.labels).sum())
    return right / len(images)
