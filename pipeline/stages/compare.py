"""compare: the certified network against what one would have used instead, at its latency and trained alike."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np
from torch import nn

from pipeline.artifacts.certificate import Certificate
from pipeline.artifacts.comparison import Comparison, Entrant, Plan, Trial, Unmatched
from pipeline.artifacts.network import ChosenNetwork
from pipeline.console import counted, say
from pipeline.data.normalization import Normalization
from pipeline.errors import UserError
from pipeline.latency.budget_rule import Measured
from pipeline.latency.target import TargetMachine
from pipeline.resumable.checkpoint import hash_of
from pipeline.rivals.contest import Contest, Contestant, prepare
from pipeline.rivals.matching import match_width
from pipeline.rivals.networks import RANDOM, builder_of, count_macs
from pipeline.rivals.pace import affordable_epochs, time_epoch
from pipeline.rivals.timing import Stopwatch
from pipeline.rivals.verdict import Trained, compare_all, conclude
from pipeline.space.genotype import Genotype
from pipeline.space.network import Network
from pipeline.stages.context import Context
from pipeline.stages.null import draw_networks
from pipeline.stages.tables import open_target
from pipeline.training.job import Job
from pipeline.training.step import plain_model, seed_all

CERTIFIED = "certified"


@dataclass(frozen=True)
class Order:
    """What is asked: rivals by name, minutes of training in all (0: as many epochs as retraining), and seeds."""

    rivals: tuple[str, ...]
    minutes: float
    seeds: tuple[int, ...]

    @property
    def named(self) -> tuple[str, ...]:
        """Rivals that are brought to the latency by their width."""
        return tuple(name for name in self.rivals if name != RANDOM)


class Setting(NamedTuple):
    """What all networks of a comparison have in common."""

    context: Context
    order: Order
    chosen: ChosenNetwork
    certificate: Certificate
    watch: Stopwatch


def compare(context: Context, order: Order) -> Comparison:
    """Train all, or what is left of it, and write runs/NAME/compare/comparison.json."""
    return compare_on(context, order, open_target(context))


def compare_on(context: Context, order: Order, machine: TargetMachine) -> Comparison:
    """The stage on any machine."""
    if not order.rivals:
        raise UserError("--rivals names no network; give names of timm, plain or random, with commas between")
    chosen = context.read(ChosenNetwork)
    certificate = context.read(Certificate).require_of(chosen)
    for name in order.named:
        builder_of(name, chosen.skeleton)  # an unknown name is refused before anything is timed
    watch = Stopwatch(machine, chosen.skeleton, chosen.genotype, certificate.percentile)
    with context.run.locked():
        setting = Setting(context, order, chosen, certificate, watch)
        plan = _find_plan(setting)
        contestants = list(_contestants(setting, plan))
        job = _make_job(context, plan.epochs)
        contest = Contest(job, order.seeds, context.data.test, context.run.comparison.parent)
        trials = contest.run(contestants)
        comparison = _conclude(setting, plan, contestants, trials, len(job.train))
        context.write(comparison)
    return comparison


def _make_job(context: Context, epochs: int) -> Job:
    """The recipe of [retrain] on all training images, without what only our networks have."""
    config, data = context.config, context.data
    ours = {"auxiliary": 0.0, "drop_path": 0.0, "genotype": "", "teacher": "", "start": "random"}
    recipe = config.retrain.model_copy(update={"epochs": epochs, **ours})
    folder = context.run.comparison.parent
    return Job(
        config=recipe,
        train=data.train_all,
        holdout=None,
        classes=data.classes,
        normalize=Normalization(data.mean, data.std, context.device, config.compute.channels_last),
        augment=config.data.augment,
        device=context.device,
        seed=0,
        workers=config.compute.workers,
        checkpoints=folder,
        history=folder,
        tensorboard=None,
        config_hash=hash_of([recipe.effective(), config.data.effective(), data.data_hash]),
    )


def _find_plan(setting: Setting) -> Plan:
    """The plan of an earlier process that was asked the same, or a new one."""
    path, identity = setting.context.run.comparison.with_name("plan.json"), _identity(setting)
    try:
        known = Plan.read(path) if path.exists() else None
    except UserError:
        known = None
    if known is not None and known.identity == identity:
        say("going on with the widths and epochs that were measured before")
        return known
    plan = _make_plan(setting, identity)
    plan.write(path)
    return plan


def _identity(setting: Setting) -> str:
    """What a plan depends on."""
    context, chosen = setting.context, setting.chosen
    network = {"skeleton": asdict(chosen.skeleton), "genotype": chosen.genotype.record()}
    device = setting.watch.machine.device.fingerprint.record()
    return hash_of(
        [asdict(setting.order), network, device, _make_job(context, context.config.retrain.epochs).config_hash]
    )


def _make_plan(setting: Setting, identity: str) -> Plan:
    widths, unmatched = _match(setting)
    seeds = setting.order.seeds
    random = (
        draw_networks(setting.context, setting.watch, setting.certificate, seeds)
        if RANDOM in setting.order.rivals
        else []
    )
    plan = Plan(identity=identity, epochs=1, widths=widths, unmatched=unmatched, random=random)
    return plan.model_copy(update={"epochs": _choose_epochs(setting, plan)})


def _match(setting: Setting) -> tuple[dict[str, float], list[Unmatched]]:
    """Every rival at the width that takes the certified network's time; if none can be brought there, a refusal."""
    widths, unmatched = dict[str, float](), list[Unmatched]()
    latency_ms = setting.certificate.certified_ms
    say(f"seeking the width at which each rival takes {latency_ms:.3g} ms, by timing up to two dozen widths of it …")
    for name in setting.order.named:
        match = match_width(builder_of(name, setting.chosen.skeleton), setting.watch.ratio_of)
        say(f"{name}: {match.ratio:.2f} of the certified network's latency at width {match.width:.2f}")
        if match.is_close:
            widths[name] = match.width
        else:
            unmatched.append(Unmatched(name=name, width=match.width, measured_ms=match.ratio * latency_ms))
    if unmatched and not widths and RANDOM not in setting.order.rivals:
        nearest = min(unmatched, key=lambda one: abs(one.measured_ms / latency_ms - 1))
        raise UserError(
            f"no rival can be brought to {latency_ms:.3g} ms; the nearest is {nearest.name}, which takes about "
            f"{nearest.measured_ms:.3g} ms at width {nearest.width:.2f}: name others with --rivals"
        )
    return widths, unmatched


def _choose_epochs(setting: Setting, plan: Plan) -> int:
    most, minutes = setting.context.config.retrain.epochs, setting.order.minutes
    if not minutes:
        return most
    job = _make_job(setting.context, most)
    seconds = []
    for contestant in _contestants(setting, plan):
        seed_all(0)
        network = prepare(contestant.build(setting.order.seeds[0]), job)
        seconds.append(time_epoch(plain_model(network), job))
    epochs = affordable_epochs(minutes, seconds, len(setting.order.seeds), most)
    total = epochs * len(setting.order.seeds) * sum(seconds) / 60
    say(
        f"{counted(epochs, 'epoch')} of every network with {counted(len(setting.order.seeds), 'seed')}: "
        f"about {total:.1f} minutes of training{', more than asked for, as one epoch is the least' * (total > minutes)}"
    )
    return epochs


def _contestants(setting: Setting, plan: Plan) -> list[Contestant]:
    """The certified network first, then the rivals, then random networks, another one for every seed."""
    skeleton, seeds = setting.chosen.skeleton, setting.order.seeds
    ours = setting.chosen.genotype

    def of_genotypes(name: str, genotypes: Sequence[Genotype]) -> Contestant:
        by_seed = dict(zip(seeds, genotypes, strict=True))
        return Contestant(name, lambda seed: Network(skeleton, by_seed[seed]), lambda seed: by_seed[seed].record())

    found = [of_genotypes(CERTIFIED, [ours] * len(seeds))]
    for name, width in plan.widths.items():
        build = builder_of(name, skeleton)
        found.append(Contestant(name, lambda _, build=build, width=width: build(width), lambda _, width=width: width))  # type: ignore[misc]
    return [*found, of_genotypes(RANDOM, plan.random)] if plan.random else found


def _conclude(
    setting: Setting, plan: Plan, contestants: Sequence[Contestant], trials: dict[str, list[Trial]], train_images: int
) -> Comparison:
    """All latencies in one session, then the figures and the sentence."""
    seeds, certificate, context = setting.order.seeds, setting.certificate, setting.context
    groups = [[one.build(seed) for seed in (seeds if one.name == RANDOM else seeds[:1])] for one in contestants]
    measured = setting.watch.time_all([module for group in groups[1:] for module in group])
    entrants, at = [], 0
    for contestant, group in zip(contestants, groups, strict=True):
        own, at = measured[at : at + len(group)], at + len(group)
        width = plan.widths.get(contestant.name)
        entrants.append(_describe(setting, contestant.name, width, group, own, trials[contestant.name]))
    differences = compare_all(entrants)
    test_images = len(context.data.test)
    trained = Trained(plan.epochs, context.config.retrain.epochs)
    return Comparison(
        percentile=certificate.percentile,
        budget_ms=certificate.budget_ms,
        noise_floor=max(one.noise_floor for one in measured),
        device=setting.watch.machine.device.fingerprint,
        on_target=setting.watch.machine.device.fingerprint == certificate.device,
        epochs=plan.epochs,
        seeds=list(seeds),
        train_images=train_images,
        test_images=test_images,
        entrants=entrants,
        unmatched=plan.unmatched,
        differences=differences,
        sentence=conclude(entrants, differences, test_images, trained),
    )


def _describe(
    setting: Setting,
    name: str,
    width: float | None,
    modules: Sequence[nn.Module],
    measured: Sequence[Measured],
    trials: Sequence[Trial],
) -> Entrant:
    return Entrant(
        name=name,
        kind="certified" if name == CERTIFIED else "random" if name == RANDOM else "rival",
        width=width,
        params=round(np.mean([sum(p.numel() for p in module.parameters()) for module in modules])),
        macs=round(np.mean([count_macs(module, setting.chosen.skeleton) for module in modules])),
        measured_ms=float(np.mean([one.at(setting.certificate.percentile) for one in measured])),
        training_s=float(np.mean([trial.training_s for trial in trials])),
        accuracies=[trial.accuracy for trial in trials],
    )
