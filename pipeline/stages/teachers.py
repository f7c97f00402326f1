"""The teacher of [retrain], opened whatever it is made of and checked against the data."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

from pipeline.artifacts.taught import ENTRY as TAUGHT
from pipeline.artifacts.taught import TaughtTeacher
from pipeline.artifacts.tensors import unpack
from pipeline.artifacts.trained import ENTRY as TRAINED
from pipeline.artifacts.trained import Trained
from pipeline.errors import UserError
from pipeline.stages.context import Context
from pipeline.stages.named_files import teacher_source
from pipeline.training.onnx_teacher import open_onnx
from pipeline.training.teacher import Teacher, TeacherInput, require_channels
from pipeline.training.teacher_source import TeacherSource
from pipeline.training.timm_network import build, classes_of, fetch, read_weights
from pipeline.whole_files import sha256_of


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
            return _teach_with(source.text, path, made.network, view, (), device)
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
    return _teach_with(name, path, network, view, facts.labels, device)


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
    return _teach_with(source.text, path, trained.network, view, trained.labels, device)


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
    name: str, path: Path, network: nn.Module, view: TeacherInput, labels: tuple[str, ...], device: torch.device
) -> Teacher:
    network = network.to(device).to(memory_format=view.format).eval().requires_grad_(False)
    return Teacher(name, sha256_of(path), view, network, labels)
