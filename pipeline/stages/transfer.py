"""transfer: a genotype found elsewhere, certified in this run's own skeleton before it is trained on its data."""

from pipeline.artifacts.certificate import Certificate
from pipeline.artifacts.network import ChosenNetwork, genotype_hash
from pipeline.budget.targets import Demands
from pipeline.console import say
from pipeline.errors import PromiseBroken, UserError
from pipeline.latency.budget_rule import Measured
from pipeline.latency.target import FIRM_NOISE_FLOOR
from pipeline.selection.certification import Measure, time_network
from pipeline.space.genotype import Genotype
from pipeline.space.genotype_file import read_genotype_file
from pipeline.space.plan import count_macs, count_params
from pipeline.stages.context import Context
from pipeline.stages.tables import TargetTable, open_target, open_target_table


def run(context: Context) -> None:
    """Put the network of [retrain] genotype in the place of a selected one, timed on the target."""
    target = context.config.target
    known = open_target_table(context) if target.table and target.allow_mismatch else None
    if known is not None and known.differences:
        transfer(context, known.expect, known)
    else:
        transfer(context, open_target(context).time_network)


def transfer(context: Context, measure: Measure, elsewhere: TargetTable | None = None) -> None:
    """The stage, wherever measurements come from; a target that is `elsewhere` is known by its table.

    The network has the cells and channels of [target] at the resolution of [data]; one that misses a limit is refused
    (exit 3) before any training.
    """
    genotype, stated = read_genotype_file(context.run.project / context.config.retrain.genotype)
    if genotype.space != context.config.target.space:
        raise UserError(
            f"the genotype in {context.config.retrain.genotype} is of the space {genotype.space!r}; "
            f"set [target] space = {genotype.space!r}"
        )
    if stated not in (None, context.target_skeleton):
        say(f"the skeleton in {context.config.retrain.genotype} is not taken over: [target] and [data] state the sizes")
    _check_size(context, genotype)
    measured = _time(context, genotype, measure)
    context.write(ChosenNetwork(genotype=genotype, skeleton=context.target_skeleton))
    context.write(_certify(context, genotype, measured, elsewhere))
    context.run.selection.unlink(missing_ok=True)  # that of another network


def _check_size(context: Context, genotype: Genotype) -> None:
    target, skeleton = context.config.target, context.target_skeleton
    for name, count, most in (
        ("multiply-adds", count_macs(skeleton, genotype), target.max_macs),
        ("parameters", count_params(skeleton, genotype), target.max_params),
    ):
        if most and count > most:
            raise PromiseBroken(
                f"the network of {context.config.retrain.genotype} has {count:,} {name} where {most:,} are allowed; "
                "lower [target] cells or channels"
            )


def _time(context: Context, genotype: Genotype, measure: Measure) -> Measured:
    target, skeleton = context.config.target, context.target_skeleton
    demands = Demands.of(target, target.budget_ms)
    measured = time_network(measure, skeleton, genotype, demands, target.max_noise_floor)
    at_ms = measured.at(target.percentile)
    if not measured.keeps(target.budget_ms, target.percentile):
        raise PromiseBroken(
            f"the network of {context.config.retrain.genotype} takes {at_ms:.3g} ms (p{target.percentile}) at "
            f"{skeleton.cells} cells, {skeleton.channels} channels and {skeleton.resolution} px, over the budget of "
            f"{target.budget_ms:g} ms; lower [target] cells or channels, or raise budget_ms"
        )
    latency = f"{at_ms:.3g} ms (p{target.percentile}, {measured.basis})"
    say(f"transferred genotype: {latency}, within the budget of {target.budget_ms:g} ms")
    return measured


def _certify(context: Context, genotype: Genotype, measured: Measured, elsewhere: TargetTable | None) -> Certificate:
    """A certificate without a prediction, which needs no table where the target can be asked."""
    target = context.config.target
    return Certificate(
        budget_ms=target.budget_ms,
        percentile=target.percentile,
        device=elsewhere.table.fingerprint if elsewhere else open_target(context).device.fingerprint,
        sentinel_ms=elsewhere.sentinel_ms if elsewhere else None,
        table_validated=None,
        table_differences=elsewhere.differences if elsewhere else [],
        fits=True,
        predicted_ms=None,
        predicted_interval_ms=None,
        **measured.record_beside(target.budget_ms, target.percentile),
        provisional=measured.is_predicted or measured.noise_at(target.percentile) > FIRM_NOISE_FLOOR,
        genotype_sha256=genotype_hash(genotype),
        skeleton=context.target_skeleton,
        iterations=[],
    )
