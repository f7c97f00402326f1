"""How good the search is, where it can be known: NAS-Bench-201, all 15,625 cells with accuracy and latencies.

    python -m benchmarks.nasbench201 --seeds 3,4,5,6,7 --minutes 15             # the default, and its nulls
    python -m benchmarks.nasbench201 --variants mixture,first-order --evidence-minutes 0 --ways alpha
    python -m benchmarks.nasbench201 --accuracy-column cifar10_valid_accuracy --quantiles 15,35,60,85

Searches run as `pipeline search` does, under a budget on one device (--budget-device, --budget-quantile). For each
device column and budgets at quantiles of its latencies (cells under 0.05 ms left out), site times are fitted from 200
random cells; the product selects; up to 10 chosen cells are looked up as the certificate's measurement.
Regret = best feasible accuracy − found. Settings were chosen on the cells of one random half; tau is stated for it
and for the other half. Searches are kept in the work folder and go on where they were stopped.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.nasbench201_search import NOISE, VARIANTS, Found, Labor, run_search_once
from benchmarks.nasbench201_tables import (
    SPACE,
    Array,
    Column,
    FittedDevice,
    all_cells,
    fit_device,
    name_of,
    numeric_columns,
    read_column,
)
from pipeline.budget.integer_programme import Scores
from pipeline.budget.limits import Limit
from pipeline.budget.targets import Demands, make_targets
from pipeline.config import DiscretizeConfig
from pipeline.latency.budget_rule import Measured
from pipeline.selection.budgets import Rules, best_seeker, select
from pipeline.selection.chooser import Chooser
from pipeline.selection.evidence import tau_of
from pipeline.selection.evolution import Evolution
from pipeline.selection.judged import measure_judged
from pipeline.selection.pool import Pool, feasible_networks
from pipeline.selection.short_training import train_shortly
from pipeline.selection.sources import Measure, Sources, measure_alpha, measure_size, measure_zero_cost
from pipeline.selection.trials import Ledger, TrainingBudget, gather_evidence
from pipeline.selection.verdict import Exploration, conclude
from pipeline.space.costs import Costs, mac_costs
from pipeline.space.genotype import Genotype
from pipeline.space.skeleton import Skeleton

SHARED = Path(__file__).parents[2] / "shared" / "data"
TARGET = Skeleton(SPACE.name, cells=15, channels=16, resolution=32, classes=10)
WAYS = ("alpha", "random alpha", "evidence without search", "evidence")
LEAST_MS, FITTED_CELLS, MAX_LOOKUPS, POOL = 0.05, 200, 10, 96


class Bench(NamedTuple):
    """All cells, what they reach, and what they take on one device."""

    cells: list[Genotype]
    accuracy: Array
    latency: Column
    latencies: Array

    def budget_ms(self, quantile: float) -> float:
        return float(np.percentile(self.latencies[self.latencies >= LEAST_MS], quantile))

    def fit_device(self) -> FittedDevice:
        known = np.flatnonzero(self.latencies >= LEAST_MS)
        drawn = np.random.default_rng(0).choice(known, FITTED_CELLS, replace=False)
        return fit_device(self.latency, [self.cells[index] for index in drawn])

    def feasible(self, budget_ms: float) -> NDArray[np.intp]:
        kept: NDArray[np.intp] = np.flatnonzero((self.latencies >= LEAST_MS) & (self.latencies <= budget_ms))
        return kept


class Case(NamedTuple):
    """One budget on one device."""

    device: str
    accuracy: float
    regret: float
    first_over: bool
    over: bool
    lookups: int
    random_regret: float
    biggest_regret: float


class Lookups:
    """The certificate's measurements, from the table; at most MAX_LOOKUPS different cells."""

    def __init__(self, latency: Column) -> None:
        self._latency, self.asked = latency, dict[str, float]()

    def measure(self, skeleton: Skeleton, genotype: Genotype) -> Measured:
        name = name_of(genotype)
        if name not in self.asked and len(self.asked) >= MAX_LOOKUPS:
            return Measured(np.inf, np.inf, np.inf, 0.0)  # no more look-ups: such a cell does not count as fitting
        ms = self.asked.setdefault(name, self._latency.of[name])
        return Measured(ms, ms, ms, 0.0)


class Way(NamedTuple):
    """A way to choose: scores of choices, and an evolution by scores of whole cells."""

    title: str
    scores: Scores
    evolution: Evolution | None = None


def run_case(bench: Bench, device: FittedDevice, way: Way, budget_ms: float, options: argparse.Namespace) -> Case:
    """Select under one budget as the product does."""
    chooser = Chooser(SPACE, way.scores, make_targets([TARGET], lambda _: device), score_share=0.0)
    lookups, demands = Lookups(bench.latency), Demands(budget_ms, 50)
    rules = Rules(max_rounds=options.rounds, max_noise_floor=0.05, evolution=way.evolution)
    outcome = select(chooser, best_seeker(chooser, demands), demands, lookups.measure, rules)
    accuracy = dict(zip(map(name_of, bench.cells), bench.accuracy, strict=True))
    feasible = bench.feasible(budget_ms)
    best = float(bench.accuracy[feasible].max())
    costs = mac_costs(TARGET)
    macs = np.array([costs.of(bench.cells[index]) for index in feasible])
    found = name_of(outcome.chosen.genotype)
    first = next(iter(lookups.asked.values()))
    return Case(
        bench.latency.name,
        accuracy[found],
        best - accuracy[found],
        first > budget_ms,
        bench.latency.of[found] > budget_ms,
        len(lookups.asked),
        best - float(bench.accuracy[feasible].mean()),
        best - float(bench.accuracy[feasible][macs >= macs.max() * (1 - 1e-9)].mean()),
    )


def open_bench(options: argparse.Namespace, device: str, accuracy: Column) -> Bench:
    cells, latency = all_cells(), read_column(options.latency, device)
    reached, taken = (np.array([column.of[name_of(cell)] for cell in cells]) for column in (accuracy, latency))
    return Bench(cells, reached, latency, taken)


def select_everywhere(options: argparse.Namespace, way: Way, accuracy: Column) -> Iterator[Case]:
    """Every device and budget, and at the end one case without a limit."""
    for name in options.devices.split(",") if options.devices else numeric_columns(options.latency):
        bench = open_bench(options, name, accuracy)
        device = bench.fit_device()
        for quantile in options.quantiles:
            yield run_case(bench, device, way, bench.budget_ms(quantile), options)
    unlimited = bench._replace(latency=bench.latency._replace(name="unlimited"))
    yield run_case(unlimited, device, way, 10 * bench.latencies.max(), options)


def report_cases(title: str, cases: Sequence[Case]) -> Iterator[str]:
    """Mean regrets, by device and over all."""
    yield f"| {title} | regret | largest | first choice over | over after certificate | look-ups | random | biggest |"
    yield "|---|---|---|---|---|---|---|---|"
    *limited, unlimited = cases
    for name in [*dict.fromkeys(case.device for case in limited), "all"]:
        rows = [case for case in limited if name in ("all", case.device)]
        yield (
            f"| {name} | {np.mean([c.regret for c in rows]):.2f} | {max(c.regret for c in rows):.2f} "
            f"| {sum(c.first_over for c in rows)}/{len(rows)} | {sum(c.over for c in rows)}/{len(rows)} "
            f"| {np.mean([c.lookups for c in rows]):.1f} | {np.mean([c.random_regret for c in rows]):.2f} "
            f"| {np.mean([c.biggest_regret for c in rows]):.2f} |"
        )
    yield f"\nWithout a limit: {unlimited.accuracy:.2f}."


def report_selection(options: argparse.Namespace, labor: Labor, accuracy: Column) -> Iterator[str]:
    """What each way of choosing buys, for every seed; under "unlimited" the cell without any budget."""
    cells = all_cells()
    reached = np.array([accuracy.of[name_of(cell)] for cell in cells])
    seen = np.isin(np.arange(len(cells)), np.random.default_rng(3).permutation(len(cells))[: len(cells) // 2])
    for seed in options.seeds:
        for way in _ways(options, labor, seed):
            yield ""
            start = time.process_time()
            cases = list(select_everywhere(options, way, accuracy))
            minutes = (time.process_time() - start) / 60
            costs = Costs(0.0, way.scores)
            sums = np.array([costs.of(cell) for cell in cells])
            taus = ", ".join(f"{tau_of(sums[half], reached[half]):.2f}" for half in (seen, ~seen))
            yield from report_cases(f"{way.title}, seed {seed}, {minutes:.0f} min, tau of sums {taus}", cases)


def _ways(options: argparse.Namespace, labor: Labor, seed: int) -> Iterator[Way]:
    for name in options.variants.split(","):
        found = run_search_once(labor, VARIANTS[name], seed)
        print(f"\n{name}, seed {seed}: {found.epochs} epochs, {found.minutes:.1f} CPU minutes")
        for title in options.ways.split(",") if options.ways else WAYS:
            yield _way(options, labor, seed, title, found)._replace(title=f"{name}: {title}")


def _way(options: argparse.Namespace, labor: Labor, seed: int, title: str, found: Found) -> Way:
    if title == "alpha":
        return Way(title, found.scores())
    if title == "random alpha":
        generator = np.random.default_rng(seed)
        return Way(title, {kind: generator.normal(size=score.shape) for kind, score in found.scores().items()})
    return _evidence_way(options, labor, seed, title, found if title == "evidence" else None)


def _evidence_way(options: argparse.Namespace, labor: Labor, seed: int, title: str, found: Found | None) -> Way:
    """As `pipeline discretize` judges: a pool that keeps the budget, short trainings, and the scores that follow."""
    material, trained = labor.material(seed), replace(labor.skeleton, cells=options.evidence_cells)
    images = next(material.training()).images[:32]
    measures: list[Measure] = [measure_size(TARGET), measure_zero_cost(trained, images, seed)]
    if found is not None:
        measures = [
            measure_alpha(found.scores()),
            *measures,
            *filter(None, [measure_judged(found.judged)]),
        ]
    sources = Sources(measures)
    pool = Pool(SPACE, tuple(feasible_networks(SPACE, (labor.limit,), POOL, seed)), (labor.limit,))
    ledger = Ledger(
        labor.work / f"{title.replace(' ', '-')}-{options.evidence_minutes:g}min-seed{seed}.jsonl",
        f"{trained}-{options.evidence_steps}-{options.evidence_minutes}-{labor.limit.at_most}",
        lambda one: train_shortly(trained, one, material, options.evidence_steps),
        clock=time.process_time,
    )
    evidence = gather_evidence(pool, sources, ledger, TrainingBudget(options.evidence_minutes, 200))
    ledger.close()
    alpha = None if found is None else found.scores()
    verdict = conclude(evidence, sources, pool, alpha, Exploration(options.evaluations, seed))
    for row in verdict.standings:
        print(f"- {row.source}: {row.tau:+.2f} ({row.low:+.2f} … {row.high:+.2f}), weight {row.weight}")
    return Way(title, verdict.scores, verdict.evolution)


def main() -> None:
    """Print the tables as markdown."""
    options = parse_arguments()
    accuracy = read_column(options.accuracy, options.accuracy_column)
    bench = open_bench(options, options.budget_device, accuracy)
    limit = Limit("budget_ms", bench.fit_device().costs(), bench.budget_ms(options.budget_quantile), "ms")
    labor = Labor(
        options.images, options.cells, options.channels, options.resolution, options.minutes, options.work, limit
    )
    for line in report_selection(options, labor, accuracy):
        print(line, flush=True)


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--accuracy", type=Path, default=SHARED / "nasbench201" / "accuracy_cifar10.csv")
    parser.add_argument("--accuracy-column", default="cifar10_test_accuracy")
    parser.add_argument("--latency", type=Path, default=SHARED / "nasbench201" / "latency.csv")
    parser.add_argument("--devices", default="", help="columns of the latency file; all if empty")
    parser.add_argument("--images", type=Path, default=SHARED / "cifar10" / "cifar10_subset.npz")
    parser.add_argument("--seeds", type=_numbers, default=[0])
    parser.add_argument("--quantiles", type=_numbers, default=[10, 25, 50, 75], help="of latencies: the budgets")
    parser.add_argument("--variants", default="default", help=f"{', '.join(VARIANTS)} ({NOISE}: the search's null)")
    parser.add_argument("--budget-device", default="raspi4_ms", help="the search's own budget is on this one")
    parser.add_argument("--budget-quantile", type=int, default=50)
    parser.add_argument("--cells", type=int, default=3, help="cells of the supernet")
    parser.add_argument("--channels", type=int, default=8, help="channels of the supernet")
    parser.add_argument("--resolution", type=int, default=16, help="of the images in searches and short trainings")
    parser.add_argument("--minutes", type=float, default=15.0, help="CPU minutes of one search")
    parser.add_argument("--rounds", type=int, default=DiscretizeConfig().max_rounds)
    product = DiscretizeConfig()
    parser.add_argument("--evidence-minutes", type=float, default=product.evidence_minutes)
    parser.add_argument("--evidence-steps", type=int, default=product.evidence_steps)
    parser.add_argument("--evidence-cells", type=int, default=5)
    parser.add_argument("--evaluations", type=int, default=product.evaluations)
    parser.add_argument("--ways", default="", help=f"{', '.join(WAYS)}; all if empty")
    parser.add_argument("--work", type=Path, default=Path("runs/benchmarks/nasbench201"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
