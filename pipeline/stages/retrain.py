"""retrain: the chosen network trained on all training images, then tested once."""

from dataclasses import asdict, replace
from typing import NamedTuple

import torch

from pipeline.artifacts.metrics import Metrics
from pipeline.artifacts.network import ChosenNetwork
from pipeline.artifacts.trained import Trained
from pipeline.console import say
from pipeline.data import ImageData, ImageSet
from pipeline.data.normalization import Normalization
from pipeline.data.splits import cut
from pipeline.errors import UserError
from pipeline.report.pictures.training import draw_all
from pipeline.resumable.checkpoint import hash_of
from pipeline.resumable.history import publish_history
from pipeline.resumable.ranks import is_writer, joined, wait_for_all, world
from pipeline.space.network import Network
from pipeline.space.skeleton import Skeleton
from pipeline.stages.context import Context
from pipeline.training.job import Job, Outcome
from pipeline.training.loop import train
from pipeline.training.measures import Measures, measure, predict
from pipeline.training.step import model_of, seed_all


def run(context: Context) -> None:
    """Write weights, metrics and pictures; all ranks of a launcher train, the writer tests and writes."""
    with joined(context.device) as device:
        wait_for_all()
        chosen = context.read(ChosenNetwork)
        _check_data(context.data, chosen.skeleton)
        network = make_network(context, chosen).to(device)
        job = make_job(context, chosen, device)
        outcome = train(model_of(network), job)
        if is_writer():
            _finish(context, network, job, outcome)
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
    train_set, holdout = _split_training(context.data, config.retrain.holdout_share)
    return Job(
        config=config.retrain,
        train=train_set,
        holdout=holdout,
        classes=context.data.classes,
        normalize=Normalization(context.data.mean, context.data.std, device, config.compute.channels_last),
        augment=config.retrain.augment or config.data.augment,
        device=device,
        seed=config.compute.seed,
        workers=config.compute.workers,
        checkpoints=run.checkpoints("retrain"),
        history=run.checkpoints("retrain") / "history.jsonl",
        tensorboard=run.tensorboard("retrain"),
        config_hash=hash_of(
            {
                "retrain": config.retrain.effective(),
                "data": config.data.effective(),
                "data_hash": context.data.data_hash,
                "seed": config.compute.seed,
                "channels_last": config.compute.channels_last,
                "skeleton": asdict(chosen.skeleton),
                "genotype": chosen.genotype.record(),
            }
        ),
    )


class _Parts(NamedTuple):
    train: ImageSet
    holdout: ImageSet | None


def _split_training(data: ImageData, holdout_share: float) -> _Parts:
    """All training images, or some of each class kept aside."""
    whole = data.train_all
    if not holdout_share:
        return _Parts(whole, None)
    kept, taken = cut(whole.indices, whole.targets, holdout_share, data.seed)
    if not len(taken):
        raise UserError(f"[retrain] holdout_share = {holdout_share:g} leaves no image to judge by; raise it, or set 0")
    return _Parts(replace(whole, indices=kept), replace(whole, indices=taken))


def _finish(context: Context, network: Network, job: Job, outcome: Outcome) -> None:
    """The one look at the test set, then weights and metrics together, then what nobody reads back."""
    data, run = context.data, context.run
    trained = Trained(network, tuple(data.mean), tuple(data.std), data.labels)
    network.load_state_dict(outcome.deployed)
    measures = measure(predict(network, data.test, job.normalize, job.workers))
    context.write(trained)
    context.write(_describe(context, job, outcome, measures))
    last = run.weights.with_name("last.safetensors")
    if outcome.kind == "last":
        last.unlink(missing_ok=True)
    else:
        network.load_state_dict(outcome.last)
        trained.write(last)
    publish_history(job.history, run.history("retrain"))
    draw_all(run.weights.parent, outcome.history, measures, data.labels)
    say(
        f"test accuracy {measures.top1:.2%} (top-5 {measures.top5:.2%}, calibration error "
        f"{measures.calibration_error:.1%}) on {measures.images} images"
    )


def _describe(context: Context, job: Job, outcome: Outcome, measures: Measures) -> Metrics:
    return Metrics(
        **measures.record(context.data.labels),
        weights=outcome.kind,
        epochs=job.config.epochs,
        train_images=len(job.train),
        precision=outcome.precision,
        processes=world().size,
    )
