"""Transfer: a genotype found elsewhere, certified in this run's own skeleton before it is trained on its data."""

from dataclasses import asdict

from pipeline.budget.targets import Demands
from pipeline.console import say
from pipeline.errors import PromiseBroken, UserError
from pipeline.latency.target import FIRM_NOISE_FLOOR
from pipeline.rundir import read_json, write_json
from pipeline.selection.certification import Measure, time_network
from pipeline.selection.records import genotype_hash
from pipeline.space.genotype import Genotype, read_genotype
from pipeline.space.plan import count_macs, count_params
from pipeline.stages.context import Context
from pipeline.stages.tables import open_target

_SCHEMA = 1


def adopt_genotype(context: Context, measure: Measure | None = None) -> None:
    """Put [retrain] genotype in the place of a selected one: genotype.json and certificate.json of this run.

    Its network has the cells and channels of [target] at the resolution of [data]. It is timed on the target unless
    this run has its certificate already; one that misses a limit is refused (exit 3) before any training.
    """
    genotype = read_genotype(context.run.project / context.config.retrain.genotype)
    if genotype.space != context.config.target.space:
        raise UserError(
            f"the genotype in {context.config.retrain.genotype} is of the space {genotype.space!r}; "
            f"set [target] space = {genotype.space!r}"
        )
    _check_size(context, genotype)
    wanted = _identity(context, genotype)
    if context.run.certificate.is_file() and context.run.genotype.is_file():
        known = read_json(context.run.certificate)
        if isinstance(known, dict) and known.get("fits") is True and wanted.items() <= known.items():
            return
    _certify(context, genotype, measure or open_target(context).time_network)


def _identity(context: Context, genotype: Genotype) -> dict[str, object]:
    target = context.config.target
    return {
        "budget_ms": target.budget_ms,
        "percentile": target.percentile,
        "genotype_sha256": genotype_hash(genotype),
        "skeleton": asdict(context.target_skeleton),
    }


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


def _certify(context: Context, genotype: Genotype, measure: Measure) -> None:
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
    write_json(context.run.genotype, {**genotype.record(), "skeleton": asdict(skeleton)})
    write_json(
        context.run.certificate,
        {
            "schema": _SCHEMA,
            **_identity(context, genotype),
            "device": open_target(context).device.fingerprint.record(),
            "fits": True,
            "transferred": True,
            "predicted_ms": None,
            **measured.record_beside(target.budget_ms, target.percentile),
            "provisional": measured.noise_at(target.percentile) > FIRM_NOISE_FLOOR,
            "iterations": [],
        },
    )
    say(f"transferred genotype: {at_ms:.3g} ms (p{target.percentile}), within the budget of {target.budget_ms:g} ms")
