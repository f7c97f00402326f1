"""The teacher of [retrain]: found, opened whatever it is made of, and judged before anybody learns from it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from pipeline.artifacts.metrics import TeacherFigures
from pipeline.artifacts.taught import ENTRY as TAUGHT
from pipeline.artifacts.taught import TaughtTeacher
from pipeline.artifacts.tensors import unpack
from pipeline.artifacts.trained import ENTRY as TRAINED
from pipeline.artifacts.trained import Trained
from pipeline.console import say
from pipeline.data import ImageSet, batches
from pipeline.data.splits import cut
from pipeline.errors import UserError
from pipeline.rundir import sha256_of
from pipeline.stages.context import Context
from pipeline.stages.named_files import teacher_source
from pipeline.stages.parts import Parts
from pipeline.training.distillation import may_cache
from pipeline.training.linear_probe import evenly_spaced, probe_accuracy
from pipeline.training.onnx_teacher import open_onnx
from pipeline.training.teacher import Teacher, TeacherInput, require_channels
from pipeline.training.teacher_source import TeacherSource
from pipeline.training.timm_network import build, classes_of, fetch, read_weights

_JUDGED_IMAGES = 1000
_JUDGED_SHARE = 0.1  # of the training images, where none are held out
_BATCH = 100


def open_teacher(context: Context, device: torch.device) -> Teacher | None:
    """The teacher of the configuration, checked against the data; None where there is none."""
    source = teacher_source(context)
    if source is None:
        return None
    if context.config.autodo.is_on:
        raise UserError(
            f"[retrain] teacher and [autodo] learn = {context.config.autodo.learn!r} exclude each other, for what is "
            "learned about images assumes a loss on labels alone; empty one of them"
        )
    if source.architecture:
        teacher = _open_timm(context, source, device)
    elif source.require_file().suffix.lower() == ".onnx":
        teacher = _open_onnx(context, source, device)
    else:
        teacher = _open_own(context, source, device)
    return teacher.check(context.data)


def _open_timm(context: Context, source: TeacherSource, device: torch.device) -> Teacher:
    taught, data, command = context.run.taught_teacher, context.data, context.run.call("teach")
    if taught.is_file():
        return _open_taught(context, taught, source, device)
    path = source.require_file() if source.file else None
    found = classes_of(source.architecture) if path is None else None
    if found in (None, data.classes):
        path = path or fetch(source.architecture)
        made = build(source.architecture, read_weights(path))
        if made.classes == data.classes:
            view = _view(context, made.mean, made.std, made.side, device)
            return _teach_with(context, source.text, path, made.network, view, (), device)
        found = made.classes
    raise UserError(
        f"the teacher {source.text} answers for {found} classes, the data have {data.classes}: run "
        f"`pipeline {command}`, which fine-tunes it for them"
    )


def _open_taught(context: Context, path: Path, source: TeacherSource | None, device: torch.device) -> Teacher:
    taught = TaughtTeacher.read(path, context.run.call("teach"))
    facts = taught.facts
    if source is not None and facts.source != source.text:
        raise UserError(
            f"{path} was made from {facts.source}, and [retrain] teacher = {source.text!r}; run "
            f"`pipeline {context.run.call('teach')}` again"
        )
    network = build(facts.architecture, None, len(facts.labels), len(facts.mean)).network
    try:
        network.load_state_dict(dict(taught.weights))
    except RuntimeError:
        raise UserError(f"{path} does not hold the weights of timm's {facts.architecture}; teach it again") from None
    name = source.text if source is not None else str(path)
    view = _view(context, facts.mean, facts.std, facts.side, device)
    return _teach_with(context, name, path, network, view, facts.labels, device)


def _open_onnx(context: Context, source: TeacherSource, device: torch.device) -> Teacher:
    path = source.require_file()
    found = open_onnx(path, device)
    require_channels(source.text, found.channels, context.data)
    view = _view(context, (0.0,) * found.channels, (1.0,) * found.channels, found.side, device)
    return Teacher(source.text, sha256_of(path), view, found.run, found.labels)


def _open_own(context: Context, source: TeacherSource, device: torch.device) -> Teacher:
    """weights.safetensors of `pipeline retrain` or `pipeline teach`, of any run."""
    path = source.require_file()
    try:
        entries = unpack(path.read_bytes()).facts
    except ValueError as error:
        raise UserError(f"the teacher's file {path} cannot be used: {error}") from None
    if TAUGHT in entries:
        return _open_taught(context, path, None, device)
    if TRAINED not in entries:
        raise UserError(
            f"{path} does not say which network it is of; for weights of timm set [retrain] teacher = "
            f'"timm:NAME@{source.text}"'
        )
    trained = Trained.read(path)
    view = _view(context, trained.mean, trained.std, trained.network.skeleton.resolution, device)
    return _teach_with(context, source.text, path, trained.network, view, trained.labels, device)


def _view(
    context: Context, mean: Sequence[float], std: Sequence[float], side: int, device: torch.device
) -> TeacherInput:
    """What it states itself, unless the configuration states otherwise."""
    config, channels = context.config, len(mean)
    for name in ("teacher_mean", "teacher_std"):
        given = getattr(config.retrain, name)
        if given and len(given) != channels:
            raise UserError(f"[retrain] {name} has {len(given)} numbers, the teacher takes {channels} channels")
    mean, std = config.retrain.teacher_mean or mean, config.retrain.teacher_std or std
    return TeacherInput(mean, std, device, config.compute.channels_last, side)


def _teach_with(
    context: Context,
    name: str,
    path: Path,
    network: nn.Module,
    view: TeacherInput,
    labels: tuple[str, ...],
    device: torch.device,
) -> Teacher:
    network = network.to(device).to(memory_format=view.format).eval().requires_grad_(False)
    return Teacher(name, sha256_of(path), view, network, labels)


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
