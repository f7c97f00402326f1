"""export: the trained network as a folder that someone deploys, with every promise checked."""

from typing import Any

from pipeline.deploy.assembly import Order, assemble
from pipeline.deploy.contract import Budget, Limits
from pipeline.deploy.measured import Measure, measure_on
from pipeline.errors import UserError
from pipeline.rundir import read_json
from pipeline.space.genotype import read_genotype
from pipeline.stages.context import Context
from pipeline.training.trained import read_trained


def run(context: Context) -> None:
    """Write exports/NAME, or leave it as it was and say which clause does not hold."""
    target, certificate = context.config.target, _read_certificate(context)
    measure = measure_on(target.device, target.threads, target.batch, certificate.get("sentinel_ms"))
    assemble(make_order(context, measure))


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
