"""export: the trained network as a folder that someone deploys, with every promise checked."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from pipeline.artifacts.certificate import Certificate
from pipeline.artifacts.known_latency import BEFORE_TRAINING, PREDICTED
from pipeline.artifacts.metrics import Metrics
from pipeline.artifacts.network import ChosenNetwork
from pipeline.artifacts.trained import Trained
from pipeline.console import say
from pipeline.deploy.assembly import Order, assemble, make_files
from pipeline.deploy.contract import Budget, Limits, Measure
from pipeline.errors import Interrupted, UserError
from pipeline.fingerprint import describe_differences
from pipeline.latency.budget_rule import Measured
from pipeline.latency.network_kit import Asked, network_kit, read_network_kit
from pipeline.latency.statistics import Interval
from pipeline.latency.target import TargetMachine
from pipeline.stages.context import Context
from pipeline.stages.kits import write_with_bar
from pipeline.stages.tables import open_target
from pipeline.whole_files import sha256_of


def run(context: Context) -> None:
    """Write exports/NAME, or leave it as it was and say which clause does not hold."""
    try:
        assemble(make_order(context, open_timing(context, context.read(Certificate))))
    except KeyboardInterrupt:
        raise Interrupted("interrupted: an earlier export is untouched; run the same command to try again") from None


def open_timing(context: Context, certificate: Certificate) -> Measure:
    """How files are timed on the target; where it is another machine, its certificate speaks for the network."""
    differences = describe_differences(certificate.device, open_target(context).device.fingerprint)
    if not (differences and context.config.target.allow_mismatch):
        return open_runtime(context, certificate).time
    say(
        f"the target is another machine ({'; '.join(differences)}): nothing is timed here; "
        f"`pipeline {context.run.call('export')} --write-kit DIR` hands the file out to be timed there"
    )
    return lambda paths: [as_certified(certificate)] * len(paths)


def open_runtime(context: Context, certificate: Certificate) -> TargetMachine:
    """The target as it runs files: onnxruntime, whatever the table was measured with."""
    profiled = context.config.profile.backend == "onnxruntime"
    machine = TargetMachine.of(context.config.target, "onnxruntime", certificate.sentinel_ms if profiled else None)
    return replace(machine, percentiles=tuple({*machine.percentiles, certificate.percentile}))


def as_certified(certificate: Certificate) -> Measured:
    """What the certificate says of the network, in the place of a measurement of its file."""
    known, interval_ms = certificate.latency_ms, certificate.latency_interval_ms
    intervals = {f"p{certificate.percentile}_interval_ms": Interval(*interval_ms)} if interval_ms else {}
    return Measured(
        known.p50,
        known.p95,
        known.p99,
        certificate.noise_floor or 0.0,
        known.raw_p50,
        **intervals,
        basis=PREDICTED if certificate.basis == PREDICTED else BEFORE_TRAINING,
    )


def write_kit(context: Context, folder: Path) -> None:
    """`export --write-kit`: the finished file for the target to time; every other promise is checked before."""
    order = make_order(context, lambda paths: [])
    files = make_files(order)
    models = {name: partial(bytes, content) for name, content in files.items()}
    kit = network_kit({"export": sorted(files)}, models, _asked(order), context.run.call("export"))
    write_with_bar(kit, folder)


def use_kit(context: Context, path: Path) -> None:
    """`export --from-kit`: the latency clause from what the target measured."""
    order = make_order(context, lambda paths: [])
    answers = read_network_kit(path, {}, _asked(order))

    def look_up(paths: Sequence[Path]) -> list[Measured]:
        found = [answers.measured.get(sha256_of(file)) for file in paths]
        if None in found:
            raise UserError(f"{path} is about another file than this run exports; write a new kit with --write-kit")
        return [one for one in found if one is not None]

    assemble(replace(order, measure=look_up))


def _asked(order: Order) -> Asked:
    certificate, limits = order.certificate, order.limits
    return Asked(certificate.device, certificate.sentinel_ms, tuple(limits.percentiles), limits.max_noise_floor)


def make_order(context: Context, measure: Measure) -> Order:
    """All that the earlier stages left, checked for belonging together."""
    settings, run, data = context.config.export, context.run, context.data
    chosen, trained = context.read(ChosenNetwork), context.read(Trained)
    certificate = context.read(Certificate).require_of(chosen)
    metrics = context.read(Metrics)
    if not chosen.is_of(trained.network.skeleton, trained.network.genotype):
        raise UserError(f"{run.weights} holds another network than {run.genotype}; run `pipeline retrain` again")
    return Order(
        run=run,
        trained=trained,
        certificate=certificate,
        labels=data.labels,
        train=data.train,
        test=data.test,
        test_accuracy=metrics.test_accuracy,
        limits=_limits(context, certificate),
        uint8_input=settings.uint8_input,
        int8=settings.int8,
        max_accuracy_loss=settings.max_accuracy_loss,
        measure=measure,
        teacher="" if metrics.teacher is None else metrics.teacher.describe(),
    )


def _limits(context: Context, certificate: Certificate) -> Limits:
    """Both budgets count: the one that was certified, and the one that is asked for now.

    With several budgets in [discretize], the certified one is what was asked.
    """
    target, settings = context.config.target, context.config.export
    certified = Budget(certificate.budget_ms, certificate.percentile)
    several = bool(context.config.discretize.budgets_ms)
    asked = certified if several else Budget(target.budget_ms, target.percentile)
    return Limits(
        budgets=tuple(dict.fromkeys((certified, asked))),
        max_noise_floor=target.max_noise_floor,
        max_macs=target.max_macs,
        max_params=target.max_params,
        max_file_mb=settings.max_file_mb,
        tolerance=settings.tolerance,
    )
