"""retrain: the chosen network trained on all training images, then tested once."""

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import torch

from pipeline.artifacts.metrics import Metrics
from pipeline.artifacts.network import ChosenNetwork
from pipeline.artifacts.trained import Trained
from pipeline.autodo.conditions import check_memory, check_settings
from pipeline.config import Config
from pipeline.console import say
from pipeline.data import ImageData, ImageSet
from pipeline.data.guide import cut_guide, make_guide
from pipeline.data.normalization import Normalization
from pipeline.data.splits import cut
from pipeline.errors import UserError
from pipeline.resumable.checkpoint import hash_of
from pipeline.resumable.history import publish_history
from pipeline.resumable.ranks import is_writer, joined, wait_for_all, world
from pipeline.space.network import Network
from pipeline.space.skeleton import Skeleton
from pipeline.stages.context import Context
from pipeline.stages.suspects import forget_learned, summarize_learned, write_learned
from pipeline.training.job import Job, Outcome
from pipeline.training.loop import train
from pipeline.training.measures import Measures, measure, predict
from pipeline.training.mistakes import find_mistakes
from pipeline.training.step import model_of, seed_all


def run(context: Context) -> None:
    """Write weights, metrics and pictures; all ranks of a launcher train, the writer tests and writes."""
    _train(context, _finish)


def audit(context: Context) -> None:
    """Train, and write what was learned about the images alone: nothing is tested, no weights are replaced."""
    _train(context, _finish_audit)


def _train(context: Context, finish: Callable[[Context, Network, Job, Outcome], None]) -> None:
    with joined(context.device) as device:
        wait_for_all()
        chosen = context.read(ChosenNetwork)
        _check_data(context.data, chosen.skeleton)
        network = make_network(context, chosen).to(device)
        job = make_job(context, chosen, device)
        outcome = train(model_of(network), job)
        if is_writer():
            finish(context, network, job, outcome)
        wait_for_all()


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


def make_network(context: Context, chosen: ChosenNetwork) -> Network:
    """The network with weights that depend on the seed alone."""
    config = context.config
    seed_all(config.compute.seed)
    network = Network(chosen.skeleton, chosen.genotype, auxiliary=config.retrain.auxiliary > 0)
    return network.to(memory_format=torch.channels_last) if config.compute.channels_last else network


def make_job(context: Context, chosen: ChosenNetwork, device: torch.device) -> Job:
    """The training that the configuration describes."""
    config, run = context.config, context.run
    if config.autodo.is_on:
        check_settings(config.autodo, config.retrain)
    parts = _split_training(context)
    if config.autodo.is_on:
        _announce_memory(config, parts, context.data.classes)
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
        config_hash=hash_of(_identify(context, chosen)),
        autodo=config.autodo,
        guide=parts.guide,
    )


def _identify(context: Context, chosen: ChosenNetwork) -> dict[str, Any]:
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
    return identity


class _Parts(NamedTuple):
    """Disjoint; the holdout picks the epoch, the guide is what images are judged by."""

    train: ImageSet
    guide: ImageSet | None
    holdout: ImageSet | None


def _split_training(context: Context) -> _Parts:
    """All training images, or some of each class kept aside."""
    data, share = context.data, context.config.retrain.holdout_share
    train_set, guide = data.train_all, None
    if context.guide is not None:
        guide = make_guide(context.guide, data)
    elif context.config.autodo.is_on:
        train_set, guide = cut_guide(data, context.config.autodo.guide_share)
    if not share:
        return _Parts(train_set, guide, None)
    kept, taken = cut(train_set.indices, train_set.targets, share, data.seed)
    if not len(taken):
        raise UserError(f"[retrain] holdout_share = {share:g} leaves no image to judge by; raise it, or set 0")
    return _Parts(replace(train_set, indices=kept), guide, replace(train_set, indices=taken))


def _announce_memory(config: Config, parts: _Parts, classes: int) -> None:
    needed = check_memory(config.autodo, len(parts.train), classes, parts.holdout is not None)
    say(
        f"learning {config.autodo.learn.replace('+', ', ')} of {len(parts.train):,} training images by "
        f"{len(parts.guide or ()):,} guide images, from epoch {config.autodo.start_epoch + 1} on; "
        f"this takes {needed / 1e6:,.1f} MB"
    )


def _finish(context: Context, network: Network, job: Job, outcome: Outcome) -> None:
    """The one look at the test set, then weights and metrics together, then what nobody reads back."""
    data, run = context.data, context.run
    trained = Trained(network, tuple(data.mean), tuple(data.std), data.labels)
    network.load_state_dict(outcome.deployed)
    answers = predict(network, data.test, job.normalize, job.workers)
    measures = measure(answers)
    context.write(find_mistakes(answers, data.test, data.labels))
    context.write(trained)
    context.write(_describe(context, job, outcome, measures))
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
        f"test accuracy {measures.top1:.2%} (top-5 {measures.top5:.2%}, calibration error "
        f"{measures.calibration_error:.1%}) on {measures.images} images"
    )


def _finish_audit(context: Context, network: Network, job: Job, outcome: Outcome) -> None:
    if outcome.learned is not None:
        write_learned(context, outcome.learned)
    say(f"`pipeline retrain{context.run.flag}` goes on from here: it tests this network and writes its weights")


def _describe(context: Context, job: Job, outcome: Outcome, measures: Measures) -> Metrics:
    learned, figures = outcome.learned, measures.record(context.data.labels)
    if learned is not None:
        figures["autodo"] = summarize_learned(job, outcome, learned)
    return Metrics(
        **figures,
        weights=outcome.kind,
        epochs=job.config.epochs,
        train_images=len(job.train),
        precision=outcome.precision,
        processes=world().size,
    )
