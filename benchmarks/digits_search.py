"""Search methods side by side on the built-in digits, in equal CPU minutes: what the networks they choose reach.

    python -m benchmarks.digits_search --methods default,first-order,bvfim --seeds 0,1,2 --minutes 2

DARTS cells under a limit of multiply-adds, half way between the cheapest and the costliest network. What a search finds
(alpha and the networks that it judged) chooses a network, as `pipeline discretize` does with no evidence; it is
trained alone and judged on validation images. The null: networks for random scores under the same limit, as many as
there are seeds. Nobody knows the best network here, so figures stand beside each other only. Searches are kept.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean, stdev

from benchmarks.tabular import numbers
from benchmarks.tabular_search import VARIANTS, Found, Labor, run_search_once
from pipeline.budget.limits import Limit
from pipeline.config import DataConfig
from pipeline.selection.evidence import Evidence
from pipeline.selection.judged import measure_judged
from pipeline.selection.pool import Pool, feasible_networks
from pipeline.selection.short_training import train_shortly
from pipeline.selection.sources import Sources, measure_alpha
from pipeline.selection.verdict import Exploration, conclude
from pipeline.space.choices import choices_cost, choices_of, genotype_of
from pipeline.space.costs import mac_costs
from pipeline.space.extremes import cheapest_genotype, costliest_genotype
from pipeline.space.genotype import Genotype
from pipeline.space.skeleton import Skeleton
from pipeline.space.spaces import space_named

SPACE = space_named("darts")
TARGET = Skeleton("darts", cells=5, channels=8, resolution=16, classes=10, in_channels=1)
POOL, EVALUATIONS = 96, 256


def make_limit() -> Limit:
    """Multiply-adds half way between the two ends."""
    costs = mac_costs(TARGET)
    ends = [costs.of(find(SPACE, costs)) for find in (cheapest_genotype, costliest_genotype)]
    return Limit("max_macs", costs, sum(ends) / 2, "MACs")


def choose(found: Found, limit: Limit, seed: int) -> Genotype:
    """The network with the highest score within the limit, by what the search has found alone."""
    judged = measure_judged(found.judged)
    sources = Sources([measure_alpha(SPACE, found.scores()), *([judged] if judged else [])])
    pool = Pool(SPACE, tuple(feasible_networks(SPACE, (limit,), POOL, seed)), (limit,))
    untrained = Evidence(sources.names, sources.look([]), [], sources.look(pool.networks))
    evolution = conclude(untrained, sources, pool, Exploration(EVALUATIONS, seed)).evolution
    assert evolution is not None
    starts = [choices_of(SPACE, network) for network in pool.networks]
    best = evolution.evolve(starts, lambda choices: limit.allows(choices_cost(SPACE, limit.costs, choices)))[0]
    return genotype_of(SPACE, best)


def report(options: argparse.Namespace) -> Iterator[str]:
    """A row per method, and one for the null."""
    images, limit = DataConfig(resolution=TARGET.resolution), make_limit()
    labor = Labor(SPACE, images, cells=3, channels=4, minutes=options.minutes, work=options.work, limit=limit)

    def train(networks: Sequence[Genotype]) -> list[float]:
        pairs = zip(networks, options.seeds, strict=True)
        return [train_shortly(TARGET, network, labor.material(seed), options.steps) for network, seed in pairs]

    yield "| method | CPU min | validation loss of the chosen network, by seed | mean ± deviation | M MACs |"
    yield "|---|---|---|---|---|"
    for name in options.methods.split(","):
        found = [run_search_once(labor, VARIANTS[name], seed) for seed in options.seeds]
        chosen = [choose(one, limit, seed) for one, seed in zip(found, options.seeds, strict=True)]
        yield _row(name, f"{mean(one.minutes for one in found):.1f}", train(chosen), chosen, limit)
    random = [feasible_networks(SPACE, (limit,), 1, seed)[0] for seed in options.seeds]
    yield _row("random scores", "", train(random), random, limit)


def _row(name: str, minutes: str, losses: Sequence[float], networks: Sequence[Genotype], limit: Limit) -> str:
    each = ", ".join(f"{loss:.3f}" for loss in losses)
    macs = ", ".join(f"{limit.costs.of(network) / 1e6:.2f}" for network in networks)
    return f"| {name} | {minutes} | {each} | {mean(losses):.3f} ± {stdev(losses):.3f} | {macs} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", default="default,first-order,bvfim", help=", ".join(VARIANTS))
    parser.add_argument("--seeds", type=numbers, default=[0, 1, 2], help="two at least")
    parser.add_argument("--minutes", type=float, default=2.0, help="CPU minutes of one search")
    parser.add_argument("--steps", type=int, default=300, help="of the training of a chosen network")
    parser.add_argument("--work", type=Path, default=Path("runs/benchmarks/digits"))
    for line in report(parser.parse_args()):
        print(line, flush=True)


if __name__ == "__main__":
    main()
