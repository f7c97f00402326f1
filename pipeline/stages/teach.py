"""teach: a network of timm fine-tuned on the data, so that retrain can learn from it."""

from typing import Any

import torch

from pipeline.artifacts.taught import TaughtFacts, TaughtTeacher
from pipeline.config import RetrainConfig
from pipeline.console import say
from pipeline.errors import UserError
from pipeline.resumable.checkpoint import hash_of
from pipeline.resumable.history import publish_history
from pipeline.resumable.ranks import is_writer, joined, wait_for_all
from pipeline.stages import TEACH
from pipeline.stages.context import Context
from pipeline.stages.early_facts import EarlyFacts
from pipeline.stages.named_files import teacher_source
from pipeline.stages.parts import split_training
from pipeline.teach_config import LIKE_RETRAIN
from pipeline.training.job import Job, Outcome
from pipeline.training.loop import train
from pipeline.training.step import plain_model, seed_all
from pipeline.training.teacher import TeacherInput, require_channels
from pipeline.training.teacher_source import TeacherSource
from pipeline.training.timm_network import TimmNetwork, build, fetch, read_weights
from pipeline.whole_files import sha256_of


def run(context: Context) -> None:
    """Write runs/NAME/teach/weights.safetensors; all ranks of a launcher train, the writer writes."""
    source = _require_timm(context)
    with joined(context.device) as device:
        wait_for_all()
        made, origin = make_network(context, source)
        job = make_job(context, made, origin, device)
        network = made.network.to(device).to(memory_format=job.normalize.format)
        outcome = train(plain_model(network), job)
        if is_writer():
            _finish(context, source, made, job, outcome)
        wait_for_all()


def _require_timm(context: Context) -> TeacherSource:
    """What is fine-tuned; another file than timm's answers for the right classes or is no teacher."""
    source = teacher_source(context)
    if source is None or not source.architecture:
        found = "is empty" if source is None else f"= {source.text!r} is a file that is used as it is"
        raise UserError(
            f'[retrain] teacher {found}; `pipeline teach` fine-tunes a network of timm: set teacher = "timm:NAME", or '
            "timm:NAME@FILE.safetensors"
        )
    return source


def make_network(context: Context, source: TeacherSource) -> tuple[TimmNetwork, str]:
    """The network with a head for the data, and the sha256 of the file that the rest comes from, if any."""
    seed_all(context.config.compute.seed)  # the head is random
    if not context.config.teach.pretrained:
        made, origin = build(source.architecture, None, context.data.classes), ""
    else:
        path = source.require_file() if source.file else fetch(source.architecture)
        made, origin = build(source.architecture, read_weights(path), context.data.classes), sha256_of(path)
    require_channels(source.text, len(made.mean), context.data)
    side = context.config.teach.resolution or made.side
    _try_out(source, made._replace(side=side))
    return made._replace(side=side), origin


def _try_out(source: TeacherSource, made: TimmNetwork) -> None:
    """Some networks take images of one size alone."""
    try:
        with torch.no_grad():
            made.network.eval()(torch.zeros(1, len(made.mean), made.side, made.side))
    except (RuntimeError, AssertionError, ValueError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
        raise UserError(
            f"{source.architecture} cannot be fed images of {made.side} px ({reason}); set [teach] resolution = 0"
        ) from None


def make_job(context: Context, made: TimmNetwork, origin: str, device: torch.device) -> Job:
    """The loop of retrain with the recipe of [teach], on the images that retrain learns from."""
    config, run, parts = context.config, context.run, split_training(context)
    alike = {name: getattr(config.retrain, name) for name in LIKE_RETRAIN}
    recipe = RetrainConfig(
        **alike,
        epochs=config.teach.epochs,
        lr=config.teach.lr,
        batch_size=config.teach.batch_size,
        checkpoint_s=config.retrain.checkpoint_s,
        auxiliary=0.0,
        drop_path=0.0,
    )
    identity: dict[str, Any] = {
        "settings": TEACH.settings_in(config),
        "data_hash": context.data.data_hash,
        "weights": origin,
        "side": made.side,
    }
    return Job(
        config=recipe,
        train=parts.train,
        holdout=parts.holdout,
        classes=context.data.classes,
        normalize=TeacherInput(made.mean, made.std, device, config.compute.channels_last, made.side),
        augment=config.retrain.augment or config.data.augment,
        device=device,
        seed=config.compute.seed,
        workers=config.compute.workers,
        checkpoints=run.checkpoints("teach"),
        history=run.checkpoints("teach") / "history.jsonl",
        tensorboard=run.tensorboard("teach"),
        config_hash=hash_of(identity),
        section="teach",
        first_epoch=EarlyFacts(),
    )


def _finish(context: Context, source: TeacherSource, made: TimmNetwork, job: Job, outcome: Outcome) -> None:
    facts = TaughtFacts(
        source=source.text,
        architecture=source.architecture,
        side=made.side,
        mean=made.mean,
        std=made.std,
        labels=context.data.labels,
    )
    context.write(TaughtTeacher(facts, outcome.deployed))
    entries = publish_history(job.history, context.run.history("teach"))
    judged = [entry["holdout_top1"] for entry in entries if entry.get("holdout_top1") is not None]
    found = f", right on {max(judged):.2%} of the holdout" if judged else ""
    say(f"{source.architecture} answers for the {context.data.classes} classes of the data now{found}")
