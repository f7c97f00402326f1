"""export: the trained network as a folder that someone deploys, with every promise checked."""

from pipeline.artifacts.certificate import Certificate
from pipeline.artifacts.metrics import Metrics
from pipeline.artifacts.network import ChosenNetwork
from pipeline.artifacts.trained import Trained
from pipeline.deploy.assembly import Order, assemble
from pipeline.deploy.contract import Budget, Limits
from pipeline.deploy.measured import Measure, measure_on
from pipeline.errors import UserError
from pipeline.stages.context import Context


def run(context: Context) -> None:
    """Write exports/NAME, or leave it as it was and say which clause does not hold."""
    target, certificate = context.config.target, context.read(Certificate)
    measure = measure_on(target.device, target.threads, target.batch, certificate.sentinel_ms)
    assemble(make_order(context, measure))


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
