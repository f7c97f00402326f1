"""retrain: the chosen network trained on all training images, then tested once."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, NamedTuple

import torch

from pipeline.artifacts.metrics import Metrics, TeacherFigures
from pipeline.artifacts.network import ChosenNetwork
from pipeline.artifacts.trained import Trained
from pipeline.autodo.conditions import check_memory, check_settings
from pipeline.config import Config
from pipeline.console import say
from pipeline.data import ImageData
from pipeline.data.normalization import Normalization
from pipeline.errors import UserError
from pipeline.memory import require_memory
from pipeline.resumable.checkpoint import hash_of
from pipeline.resumable.history import publish_history
from pipeline.resumable.ranks import is_writer, joined, wait_for_all, world
from pipeline.space.footprint import training_bytes
from pipeline.space.network import Network
from pipeline.space.skeleton import Skeleton
from pipeline.stages.context import Context
from pipeline.stages.early_facts import EarlyFacts
from pipeline.stages.named_files import start_file
from pipeline.stages.parts import Parts, split_training
from pipeline.stages.start_weights import set_start
from pipeline.stages.suspects import forget_learned, summarize_learned, write_learned
from pipeline.stages.teacher_judgement import judge
from pipeline.stages.teachers import open_teacher
from pipeline.training.job import Job, Outcome
from pipeline.training.loop import train
from pipeline.training.measures import Measures, describe_chance, measure, predict
from pipeline.training.mistakes import find_mistakes
from pipeline.training.preview import preview_training
from pipeline.training.step import model_of, seed_all
from pipeline.training.teacher import Teacher
from pipeline.whole_files import sha256_of


def run(context: Context) -> None:
    """Write weights, metrics and pictures; all ranks of a launcher train, the writer tests and writes."""
    _train(context, _finish)


def audit(context: Context) -> None:
    """Train, and write what was learned about the images alone: nothing is tested, no weights are replaced."""
    _train(context, _finish_audit)


def preview(context: Context) -> None:
    """`retrain --dry-run`: say what an epoch costs, with the teacher and without; write nothing."""
    training = prepare(context, context.device)
    say("timing a few small steps …")
    for line in preview_training(model_of(training.network), training.job).lines():
        say(line)


class Training(NamedTuple):
    """A network, the job that trains it, and what the two began with."""

    network: Network
    job: Job
    start: str
    teacher: TeacherFigures | None


def _train(context: Context, finish: Callable[[Context, Training, Outcome], None]) -> None:
    with joined(context.device) as device:
        wait_for_all()
        training = prepare(context, device)
        outcome = train(model_of(training.network), training.job)
        if is_writer():
            finish(context, training, outcome)
        wait_for_all()


def prepare(context: Context, device: torch.device) -> Training:
    """The network with its starting weights, and the job; a teacher has been judged."""
    chosen = context.read(ChosenNetwork)
    _check_data(context.data, chosen.skeleton)
    _check_size(context, chosen)
    job = make_job(context, chosen, device)
    doubt = job.describe_shortness()
    if doubt and is_writer():
        say(doubt)
    network = make_network(context, chosen)
    start = set_start(context, network)
    parts = Parts(job.train, job.guide, job.holdout)
    figures = None if job.teacher is None else judge(job.teacher, parts, context)
    return Training(network.to(device), job, start, figures)


def _check_data(data: ImageData, skeleton: Skeleton) -> None:
    """Refuse data that the network was not chosen for."""
    for name, found, wanted in (
        ("classes", data.classes, skeleton.classes),
        ("channels", data.in_channels, skeleton.in_channels),
        ("pixels a side", data.resolution, skeleton.resolution),
    ):
        if found != wanted:
            raise UserError(
                f"the data has {found} {name}, the chosen network is for {wanted}; run `pipeline run`, which chooses "
                "one for this data"
            )


def _check_size(context: Context, chosen: ChosenNetwork) -> None:
    """Refuse a step that no memory here can hold."""
    retrain = context.config.retrain
    if context.device.type == "cpu":
        images = min(retrain.batch_size, len(context.data.train_all)) // (retrain.accumulate * world().size)
        needed = training_bytes(chosen.skeleton, chosen.genotype, images)
        require_memory(needed, "a training step", "[retrain] batch_size, or raise accumulate")


def make_network(context: Context, chosen: ChosenNetwork) -> Network:
    """The network with weights that depend on the seed alone."""
    config = context.config
    seed_all(config.compute.seed)
    network = Network(chosen.skeleton, chosen.genotype, auxiliary=config.retrain.auxiliary > 0)
    return network.to(memory_format=torch.channels_last) if config.compute.channels_last else network


def check_learning(context: Context) -> None:
    """Refuse what [autodo] cannot work with: its settings, its guide, its memory."""
    config = context.config
    check_settings(config.autodo, config.retrain)
    parts = split_training(context)
    check_memory(config.autodo, len(parts.train), context.data.classes, parts.holdout is not None)


def make_job(context: Context, chosen: ChosenNetwork, device: torch.device) -> Job:
    """The training that the configuration describes."""
    config, run = context.config, context.run
    if config.autodo.is_on:
        check_settings(config.autodo, config.retrain)
    parts = split_training(context)
    if config.autodo.is_on:
        _announce_memory(config, parts, context.data.classes)
    teacher = open_teacher(context, device)
    return Job(
        config=config.retrain,
        train=parts.train,
        holdout=parts.holdout,
        classes=context.data.classes,
        normalize=Normalization(context.data.mean, context.data.std, device, config.compute.channels_last),
        augment=config.retrain.augment or config.data.augment,
        device=device,
        seed=config.compute.seed,
        workers=config.compute.workers,
        checkpoints=run.checkpoints("retrain"),
        history=run.checkpoints("retrain") / "history.jsonl",
        tensorboard=run.tensorboard("retrain"),
        config_hash=hash_of(_identify(context, chosen, teacher)),
        autodo=config.autodo,
        guide=parts.guide,
        teacher=teacher,
        first_epoch=EarlyFacts(run.comparison),
    )


def _identify(context: Context, chosen: ChosenNetwork, teacher: Teacher | None) -> dict[str, Any]:
    """All that the bits of a training depend on."""
    config = context.config
    identity = {
        "retrain": config.retrain.effective(),
        "data": config.data.effective(),
        "data_hash": context.data.data_hash,
        "seed": config.compute.seed,
        "channels_last": config.compute.channels_last,
        "skeleton": asdict(chosen.skeleton),
        "genotype": chosen.genotype.record(),
    }
    if config.autodo.is_on:
        identity["autodo"] = config.autodo.effective()
        identity["guide_hash"] = "" if context.guide is None else context.guide.fingerprint().sha256
    if teacher is not None:
        identity["teacher_hash"] = teacher.sha256
    start = start_file(context)
    if start is not None and start.is_file():
        identity["start_hash"] = sha256_of(start)
    return identity


def _announce_memory(config: Config, parts: Parts, classes: int) -> None:
    needed = check_memory(config.autodo, len(parts.train), classes, parts.holdout is not None)
    say(
        f"learning {config.autodo.learn.replace('+', ', ')} of {len(parts.train):,} training images by "
        f"{len(parts.guide or ()):,} guide images, from epoch {config.autodo.start_epoch + 1} on; "
        f"this takes {needed / 1e6:,.1f} MB"
    )


def _finish(context: Context, training: Training, outcome: Outcome) -> None:
    """The one look at the test set, then weights and metrics together, then what nobody reads back."""
    data, run, network, job = context.data, context.run, training.network, training.job
    trained = Trained(network, tuple(data.mean), tuple(data.std), data.labels)
    network.load_state_dict(outcome.deployed)
    answers = predict(network, data.test, job.normalize, job.workers)
    measures = measure(answers)
    context.write(find_mistakes(answers, data.test, data.labels))
    context.write(trained)
    metrics = _describe(context, training, outcome, measures)
    context.write(metrics)
    last = run.weights.with_name("last.safetensors")
    if outcome.kind == "last":
        last.unlink(missing_ok=True)
    else:
        network.load_state_dict(outcome.last)
        trained.write(last)
    publish_history(job.history, run.history("retrain"))
    if outcome.learned is None:
        forget_learned(context)
    else:
        write_learned(context, outcome.learned)
    say(
        f"test accuracy {measures.top1:.2%}{metrics.describe_top5()} on {measures.images} images, calibration error "
        f"{measures.calibration_error:.1%}"
    )
    if doubt := describe_chance(metrics):
        say(doubt)


def _finish_audit(context: Context, training: Training, outcome: Outcome) -> None:
    if outcome.learned is not None:
        write_learned(context, outcome.learned)
    say(f"`pipeline retrain{context.run.flag}` goes on from here: it tests this network and writes its weights")


def _describe(context: Context, training: Training, outcome: Outcome, measures: Measures) -> Metrics:
    job, learned, figures = training.job, outcome.learned, measures.record(context.data.labels)
    if learned is not None:
        figures["autodo"] = summarize_learned(job, outcome, learned)
    if training.teacher is not None:
        figures["teacher"] = training.teacher
    if context.config.retrain.start != "random":
        figures["start"] = training.start
    return Metrics(
        **figures,
        weights=outcome.kind,
        epochs=job.config.epochs,
        train_images=len(job.train),
        precision=outcome.precision,
        processes=world().size,
    )
