"""Class names: numbers where the data has no names, and the checks that every class can be learned."""

import torch
from torch import Tensor

from pipeline.errors import UserError


def number_classes(train: Tensor, every: Tensor, where: str) -> tuple[str, ...]:
    """Names "0" to "K-1" for labels that must be just these: each with a training image, none beyond."""
    present = torch.unique(train)
    classes = len(present)
    if int(present[-1]) != classes - 1:
        missing = next(number for number, label in enumerate(present.tolist()) if number != label)
        raise UserError(
            f"the labels in {where} go up to {int(present[-1])} but class {missing} has no training image; "
            "number the classes 0, 1, 2, … without gaps"
        )
    if int(every.max()) >= classes:
        raise UserError(
            f"the test labels in {where} go up to {int(every.max())}, but training has classes 0 to {classes - 1}"
        )
    return tuple(map(str, range(classes)))


def check_classes(labels: tuple[str, ...], targets: Tensor, train_count: int, where: str, stated: int = 0) -> None:
    """Two classes or more, as many as `stated` if that is not 0, each with an image to train on."""
    if len(labels) < 2:
        only = f" ({labels[0]!r})" if labels else ""
        raise UserError(f"{where} has {len(labels)} class{only}; a classifier needs two or more ([data] path)")
    if stated not in (0, len(labels)):
        raise UserError(f"{where} has {len(labels)} classes, but [data] classes = {stated}; set it to 0 to count them")
    counts = torch.bincount(targets[:train_count], minlength=len(labels))
    if not counts.all():
        empty = labels[int((counts == 0).nonzero()[0])]
        raise UserError(f"the class {empty!r} of {where} has no training image")


def rename_classes(labels: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    """The names of the configuration in place of the data's own, if it gives any."""
    if not names:
        return labels
    if len(names) != len(labels):
        raise UserError(f"[data] class_names has {len(names)} names, but the data has {len(labels)} classes")
    if len(set(names)) != len(names):
        raise UserError("[data] class_names gives two classes the same name")
    return names
