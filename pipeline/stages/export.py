"""export: the trained network as a folder that someone deploys, with every promise checked."""

from dataclasses import replace
from typing import Any

from pipeline.deploy.assembly import Order, assemble
from pipeline.deploy.contract import Budget, Limits, Measure
from pipeline.errors import UserError
from pipeline.latency.target import TargetMachine
from pipeline.rundir import read_json
from pipeline.space.genotype import read_genotype
from pipeline.stages.context import Context
from pipeline.training.trained import read_trained


def run(context: Context) -> None:
    """Write exports/NAME, or leave it as it was and say which clause does not hold."""
    assemble(make_order(context, open_runtime(context, _read_certificate(context)).time))


def open_runtime(context: Context, certificate: dict[str, Any]) -> TargetMachine:
    """The target as it runs files: onnxruntime, whatever the table was measured with."""
    profiled = context.config.profile.backend == "onnxruntime"
    machine = TargetMachine.of(
        context.config.target, "onnxruntime", certificate.get("sentinel_ms") if profiled else None
    )
    return replace(machine, percentiles=tuple({*machine.percentiles, certificate["percentile"]}))


def make_order(context: Context, measure: Measure) -> Order:
    """All that the earlier stages left, checked for belonging together."""
    settings, run, data = context.config.export, context.run, context.data
    trained = read_trained(run.weights)
    if trained.network.genotype.canonical() != read_genotype(run.genotype).canonical():
        raise UserError(f"{run.weights} holds another network than {run.genotype}; run `pipeline retrain` again")
    certificate = _read_certificate(context)
    return Order(
        run=run,
        trained=trained,
        certificate=certificate,
        labels=data.labels,
        train=data.train,
        test=data.test,
        test_accuracy=_read_accuracy(context),
        limits=_limits(context, certificate),
        uint8_input=settings.uint8_input,
        int8=settings.int8,
        max_accuracy_loss=settings.max_accuracy_loss,
        measure=measure,
    )


def _limits(context: Context, certificate: dict[str, Any]) -> Limits:
    """Both budgets count: the one that was certified, and the one that is asked for now.

    With several budgets in [discretize], the certified one is what was asked.
    """
    target, settings = context.config.target, context.config.export
    certified = Budget(float(certificate["budget_ms"]), certificate["percentile"])
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


def _read_certificate(context: Context) -> dict[str, Any]:
    record = read_json(context.run.certificate)
    if (
        not isinstance(record, dict)
        or not isinstance(record.get("budget_ms"), int | float)
        or record.get("percentile") not in (50, 95, 99)
    ):
        raise UserError(f"{context.run.certificate} is damaged; run `pipeline discretize` again")
    return record


def _read_accuracy(context: Context) -> float:
    record = read_json(context.run.metrics)
    accuracy = record.get("test_accuracy") if isinstance(record, dict) else None
    if not isinstance(accuracy, int | float):
        raise UserError(f"{context.run.metrics} has no test_accuracy; run `pipeline retrain` again")
    return float(accuracy)
