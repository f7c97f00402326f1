"""The null of a search: networks of the same space, drawn at random, that fit and are about as slow."""

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

import numpy as np

from pipeline.artifacts.certificate import Certificate
from pipeline.budget.targets import Demands, make_targets
from pipeline.errors import UserError
from pipeline.rivals.timing import Stopwatch
from pipeline.selection.pool import feasible_networks
from pipeline.space.genotype import Genotype
from pipeline.space.sampling import random_genotype
from pipeline.space.spaces import space_named
from pipeline.stages.context import Context
from pipeline.stages.tables import open_target_table

_DRAWN_PER_SEED, _MEASURED_PER_SEED = 8, 3
_ROUNDS, _LARGEST_CORRECTION = 4, 0.97
_ALIKE = 1.05  # times the certified network's latency are the same


class Drawn(NamedTuple):
    """A random network and what it takes."""

    genotype: Genotype
    ms: float


def draw_networks(context: Context, watch: Stopwatch, certificate: Certificate, seeds: Sequence[int]) -> list[Genotype]:
    """One network per seed, measured to keep the budget, and of those the nearest to the certified one's latency.

    Where too few keep it, because predictions or the machine of the moment are off, others are drawn under a limit that
    is corrected by what was measured.
    """
    known, factor = dict[str, Drawn](), 1.0
    for _ in range(_ROUNDS):
        drawn = _predicted_to_fit(context, watch, certificate, len(seeds), factor) or _any(watch, seeds)
        fresh = [genotype for genotype in drawn if str(genotype.record()) not in known]
        at_ms = [one.at(certificate.percentile) for one in watch.time_genotypes(fresh)] if fresh else []
        known |= {str(one.record()): Drawn(one, ms) for one, ms in zip(fresh, at_ms, strict=True)}
        fitting = [one for one in known.values() if one.ms <= certificate.budget_ms]
        if len(fitting) >= len(seeds):
            fitting.sort(key=lambda one: abs(one.ms - certificate.certified_ms))
            return [one.genotype for one in fitting[: len(seeds)]]
        typical_ms = median(at_ms) if at_ms else certificate.budget_ms
        factor *= min(certificate.budget_ms / typical_ms, _LARGEST_CORRECTION)
    raise UserError(
        f"only {len(fitting)} of {len(known)} random networks keep {certificate.budget_ms:g} ms, and {len(seeds)} are "
        "needed; leave random out of --rivals"
    )


def _predicted_to_fit(
    context: Context, watch: Stopwatch, certificate: Certificate, seeds: int, factor: float
) -> list[Genotype]:
    """By the run's latency table, those predicted nearest to the certified network, or to `factor` times its time.

    None where there is no table.
    """
    try:
        predictor = open_target_table(context).predictor(watch.skeleton)
    except UserError:
        return []
    alike_ms = min(certificate.budget_ms, _ALIKE * certificate.certified_ms)  # random ones make use of all they may
    demands = Demands.of(context.config.target, alike_ms)
    (target,) = make_targets([watch.skeleton], lambda _: predictor)
    found = feasible_networks(
        space_named(watch.skeleton.space),
        target.limits(demands, factor),
        _DRAWN_PER_SEED * seeds,
        context.config.compute.seed + 1,
    )
    wanted_ms = factor * predictor.predict(watch.genotype).ms
    found = [genotype for genotype in found if genotype.canonical() != watch.genotype.canonical()]
    found.sort(key=lambda genotype: abs(predictor.predict(genotype).ms - wanted_ms))
    return found[: _MEASURED_PER_SEED * seeds]


def _any(watch: Stopwatch, seeds: Sequence[int]) -> list[Genotype]:
    generator = np.random.default_rng(0)
    return [random_genotype(watch.skeleton.space, generator) for _ in range(_DRAWN_PER_SEED * len(seeds))]
