"""export: the trained network as a folder that someone deploys, with every promise checked."""

from dataclasses import replace

from pipeline.artifacts.certificate import Certificate
from pipeline.artifacts.metrics import Metrics
from pipeline.artifacts.network import ChosenNetwork
from pipeline.artifacts.trained import Trained
from pipeline.deploy.assembly import Order, assemble
from pipeline.deploy.contract import Budget, Limits, Measure
from pipeline.errors import UserError
from pipeline.latency.target import TargetMachine
from pipeline.stages.context import Context


def run(context: Context) -> None:
    """Write exports/NAME, or leave it as it was and say which clause does not hold."""
    assemble(make_order(context, open_runtime(context, context.read(Certificate)).time))


def open_runtime(context: Context, certificate: Certificate) -> TargetMachine:
    """The target as it runs files: onnxruntime, whatever the table was measured with."""
    profiled = context.config.profile.backend == "onnxruntime"
    machine = TargetMachine.of(context.config.target, "onnxruntime", certificate.sentinel_ms if profiled else None)
    return replace(machine, percentiles=tuple({*machine.percentiles, certificate.percentile}))


def make_order(context: Context, measure: Measure) -> Order:
    """All that the earlier stages left, checked for belonging together."""
    settings, run, data = context.config.export, context.run, context.data
    chosen, trained = context.read(ChosenNetwork), context.read(Trained)
    certificate = context.read(Certificate).require_of(chosen)
    if not chosen.is_of(trained.network.skeleton, trained.network.genotype):
        raise UserError(f"{run.weights} holds another network than {run.genotype}; run `pipeline retrain` again")
    return Order(
        run=run,
        trained=trained,
        certificate=certificate,
        labels=data.labels,
        train=data.train,
        test=data.test,
        test_accuracy=context.read(Metrics).test_accuracy,
        limits=_limits(context, certificate),
        uint8_input=settings.uint8_input,
        int8=settings.int8,
        max_accuracy_loss=settings.max_accuracy_loss,
        measure=measure,
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
