"""The null of a search: networks of the same space, drawn at random, that fit and are about as slow."""

from collections.abc import Sequence

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


def draw_networks(context: Context, watch: Stopwatch, certificate: Certificate, seeds: Sequence[int]) -> list[Genotype]:
    """One network per seed, measured to keep the budget, and of those the nearest to the certified one's latency."""
    drawn = _predicted_to_fit(context, watch, certificate, len(seeds)) or _any(watch, seeds)
    measured = watch.time_genotypes(drawn)
    at_ms = [one.at(certificate.percentile) for one in measured]
    fitting = [number for number, ms in enumerate(at_ms) if ms <= certificate.budget_ms]
    if len(fitting) < len(seeds):
        raise UserError(
            f"only {len(fitting)} of {len(drawn)} random networks keep {certificate.budget_ms:g} ms, and {len(seeds)} "
            "are needed; leave random out of --rivals"
        )
    fitting.sort(key=lambda number: abs(at_ms[number] - certificate.certified_ms))
    return [drawn[number] for number in fitting[: len(seeds)]]


def _predicted_to_fit(context: Context, watch: Stopwatch, certificate: Certificate, seeds: int) -> list[Genotype]:
    """By the run's latency table, those predicted nearest to the certified network; none where there is no table."""
    try:
        predictor = open_target_table(context).predictor(watch.skeleton)
    except UserError:
        return []
    demands = Demands.of(context.config.target, certificate.budget_ms)
    (target,) = make_targets([watch.skeleton], lambda _: predictor)
    found = feasible_networks(
        space_named(watch.skeleton.space),
        target.limits(demands),
        _DRAWN_PER_SEED * seeds,
        context.config.compute.seed + 1,
    )
    wanted_ms = predictor.predict(watch.genotype).ms
    found = [genotype for genotype in found if genotype.canonical() != watch.genotype.canonical()]
    found.sort(key=lambda genotype: abs(predictor.predict(genotype).ms - wanted_ms))
    return found[: _MEASURED_PER_SEED * seeds]


def _any(watch: Stopwatch, seeds: Sequence[int]) -> list[Genotype]:
    generator = np.random.default_rng(0)
    return [random_genotype(watch.skeleton.space, generator) for _ in range(_DRAWN_PER_SEED * len(seeds))]
