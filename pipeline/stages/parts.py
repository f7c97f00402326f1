"""The training images as retrain and teach share them out: what is learned from, judged by and kept aside."""

from dataclasses import replace
from typing import NamedTuple

from pipeline.data import ImageSet
from pipeline.data.guide import cut_guide, make_guide
from pipeline.data.splits import cut
from pipeline.errors import UserError
from pipeline.stages.context import Context


class Parts(NamedTuple):
    """Disjoint; the holdout picks the epoch, the guide is what images are judged by."""

    train: ImageSet
    guide: ImageSet | None
    holdout: ImageSet | None


def split_training(context: Context) -> Parts:
    """All training images, or some of each class kept aside."""
    data, share = context.data, context.config.retrain.holdout_share
    train_set, guide = data.train_all, None
    if context.guide is not None:
        guide = make_guide(context.guide, data)
    elif context.config.autodo.is_on:
        train_set, guide = cut_guide(data, context.config.autodo.guide_share)
    if not share:
        return Parts(train_set, guide, None)
    kept, taken = cut(train_set.indices, train_set.targets, share, data.seed)
    if not len(taken):
        raise UserError(f"[retrain] holdout_share = {share:g} leaves no image to judge by; raise it, or set 0")
    return Parts(replace(train_set, indices=kept), guide, replace(train_set, indices=taken))
