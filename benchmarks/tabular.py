"""Choosing among networks whose accuracies are known: what each way of choosing finds under budgets, in any space.

The product selects by predicted latencies; up to 10 chosen networks are looked up as the certificate's measurement.
Regret = the best accuracy within the budget − the one found. Beside it: a random network that fits, the largest one.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.one_size import compare_within_size
from benchmarks.tables import Array, Device, Lookups, Table, name_of
from benchmarks.tabular_search import NOISE, VARIANTS, Found, Labor, run_search_once
from pipeline.budget.integer_programme import Scores
from pipeline.budget.limits import Limit
from pipeline.budget.targets import Demands, make_targets
from pipeline.config import DataConfig, DiscretizeConfig
from pipeline.selection.budgets import Rules, best_seeker, select
from pipeline.selection.chooser import Chooser
from pipeline.selection.evidence import Evidence
from pipeline.selection.evolution import Evolution
from pipeline.selection.judged import measure_judged
from pipeline.selection.pool import Pool, feasible_networks
from pipeline.selection.short_training import train_shortly, trial_skeleton
from pipeline.selection.sources import (
    Measure,
    Sources,
    measure_alpha,
    measure_size,
    measure_zero_cost,
    proxy_skeleton,
)
from pipeline.selection.standing import tau_of
from pipeline.selection.trials import Ledger, TrainingBudget, gather_evidence
from pipeline.selection.verdict import Exploration, conclude
from pipeline.space.choices import Choices, genotype_of
from pipeline.space.costs import Costs, mac_costs
from pipeline.space.genotype import Genotype
from pipeline.space.supernet import Supernet

SHARED = Path(__file__).parents[2] / "shared" / "data"
SEARCH = "search"  # alpha and the networks that it judged; like the next two with size, without a short training
PROXIES, BOTH = "proxies", "search and proxies"
UNSEARCHED = "evidence without search"
TRUTH = "truth"  # the accuracies themselves: what is lost then is lost to predicted latencies and the margin
WAYS = ("alpha", "random alpha", SEARCH, PROXIES, BOTH, UNSEARCHED, "evidence", TRUTH)
POOL = 96


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


class Way(NamedTuple):
    """A way to choose: scores of choices, an evolution by scores of whole networks, and those of all, if cheap."""

    title: str
    scores: Scores
    evolution: Evolution | None = None
    of_networks: Array | None = None


class Contest:
    """The ways of choosing on one table, each under every budget of every device."""

    def __init__(self, table: Table, labor: Labor, options: argparse.Namespace) -> None:
        self.table, self.labor, self.options = table, labor, options
        self._places = {name_of(network): place for place, network in enumerate(table.networks)}
        macs = mac_costs(table.target)
        self._macs = np.array([macs.of(network) for network in table.networks])

    def report(self) -> Iterator[str]:
        """A table for every seed and way, and how the way's scores do on either half of the networks."""
        for seed in self.options.seeds:
            for way in self._ways(seed):
                start = time.process_time()
                cases = list(self.select_everywhere(way))
                minutes = (time.process_time() - start) / 60
                yield ""
                yield from _tabulate(f"{way.title}, seed {seed}, {minutes:.0f} min", cases)
                yield from self._report_halves(way)

    def _report_halves(self, way: Way) -> Iterator[str]:
        """τ of the scores, and the regret of the highest that fits by known latencies, on the half that settings were
        chosen on and on the other."""
        if way.of_networks is None:
            return
        size = len(self.table.networks)
        chosen_on = np.isin(np.arange(size), np.random.default_rng(3).permutation(size)[: size // 2])
        for name, half in (("chosen on", chosen_on), ("other", ~chosen_on)):
            tau = tau_of(way.of_networks[half], self.table.accuracy[half])
            regrets = [
                self._regret_within(np.flatnonzero(half & (device.latencies <= budget_ms)), way.of_networks)
                for device in self.table.devices
                for budget_ms in device.budgets_ms
            ]
            yield f"The half {name}: tau {tau:.2f}, regret {np.mean(regrets):.2f} (largest {max(regrets):.1f})."

    def _regret_within(self, places: NDArray[np.intp], scores: Array) -> float:
        reached = self.table.accuracy[places]
        return float(reached.max() - reached[np.argmax(scores[places])])

    def select_everywhere(self, way: Way) -> Iterator[Case]:
        """Every device and budget, and at the end one case without a limit."""
        for device in self.table.devices:
            for budget_ms in device.budgets_ms:
                yield self._select(device, way, budget_ms)
        yield self._select(device._replace(name="unlimited"), way, 10 * device.latencies.max())

    def _select(self, device: Device, way: Way, budget_ms: float) -> Case:
        """Select under one budget as the product does."""
        targets = make_targets([self.table.target], lambda _: device.predictor)
        chooser = Chooser(self.table.space, way.scores, targets, score_share=0.0)
        lookups, demands = Lookups(self._places, device.latencies), Demands(budget_ms, 50)
        rules = Rules(max_rounds=self.options.rounds, max_noise_floor=0.05, evolution=way.evolution)
        outcome = select(chooser, best_seeker(chooser, demands), demands, lookups.measure, rules)
        found, accuracy = self._places[name_of(outcome.chosen.genotype)], self.table.accuracy
        feasible = np.flatnonzero(device.latencies <= budget_ms)
        best, macs = float(accuracy[feasible].max()), self._macs[feasible]
        return Case(
            device.name,
            float(accuracy[found]),
            best - float(accuracy[found]),
            next(iter(lookups.asked.values())) > budget_ms,
            bool(device.latencies[found] > budget_ms),
            len(lookups.asked),
            best - float(accuracy[feasible].mean()),
            best - float(accuracy[feasible][macs >= macs.max() * (1 - 1e-9)].mean()),
        )

    def _ways(self, seed: int) -> Iterator[Way]:
        for name in self.options.variants.split(","):
            found = run_search_once(self.labor, VARIANTS[name], seed)
            print(f"\n{name}, seed {seed}: {found.epochs} epochs, {found.minutes:.1f} CPU minutes")
            if each := self.options.one_size:
                steps = self.options.evidence_steps
                print(*compare_within_size(self.table, self.labor, found, seed, each, steps), sep="\n", flush=True)
                continue
            for title in self.options.ways.split(",") if self.options.ways else WAYS:
                yield self._way(title, seed, found)._replace(title=f"{name}: {title}")

    def _way(self, title: str, seed: int, found: Found) -> Way:
        if title == "alpha":
            return self._by_sums(title, found.scores())
        if title == "random alpha":
            generator = np.random.default_rng(seed)
            random = {kind: generator.normal(size=score.shape) for kind, score in found.scores().items()}
            return self._by_sums(title, random)
        if title == TRUTH:
            evolution = Evolution(self.table.space, self._reached, self.options.evaluations, seed)
            return Way(title, found.scores(), evolution, self.table.accuracy)
        return self._weigh_evidence(title, seed, None if title in (PROXIES, UNSEARCHED) else found)

    def _reached(self, choices: Choices) -> float:
        return float(self.table.accuracy[self._places[name_of(genotype_of(self.table.space, choices))]])

    def _by_sums(self, title: str, scores: Scores) -> Way:
        costs = Costs(0.0, scores)
        return Way(title, scores, None, np.array([costs.of(network) for network in self.table.networks]))

    def _weigh_evidence(self, title: str, seed: int, found: Found | None) -> Way:
        """As `pipeline discretize` judges for the first device's budgets: a pool, short trainings, what follows."""
        sources, pool = Sources(list(self._measures(title, seed, found))), self._pool(seed)
        evidence = self._train_shortly(title, seed, sources, pool, None if found is None else found.supernet)
        verdict = conclude(evidence, sources, pool, Exploration(self.options.evaluations, seed))
        for row in verdict.standings:
            print(f"- {row.source}: {row.tau:+.2f} ({row.low:+.2f} … {row.high:+.2f}), weight {row.weight}")
        predicted = evidence.predict(sources.look(self._sample()))
        print(f"- with the truth, over {len(predicted)} networks: {tau_of(predicted, self._sampled_accuracy()):+.2f}")
        everyone = evidence.predict(sources.look(self.table.networks)) if title == SEARCH else None
        return Way(title, verdict.scores, verdict.evolution, everyone)

    def _measures(self, title: str, seed: int, found: Found | None) -> Iterator[Measure]:
        """What a search found, size, and zero-cost proxies, as far as the way asks them."""
        if found is not None:
            yield measure_alpha(self.table.space, found.scores())
            judged = measure_judged(found.judged)
            if judged is not None:
                yield judged
        yield measure_size(self.table.target)
        if title != SEARCH:
            images = next(self.labor.material(seed).training()).images[:32]
            yield from measure_zero_cost(proxy_skeleton(self.labor.skeleton, self.table.target), images, seed)

    def _train_shortly(
        self, title: str, seed: int, sources: Sources, pool: Pool, supernet: Supernet | None
    ) -> Evidence:
        if title in (SEARCH, PROXIES, BOTH):
            return Evidence(sources.names, sources.look([]), [], sources.look(pool.networks), sources.trusts_search)
        options, labor = self.options, self.labor
        trained = trial_skeleton(labor.skeleton) if supernet is None else supernet.skeleton
        material, start = labor.material(seed), "random" if supernet is None else f"{labor.minutes:g}min"
        ledger = Ledger(
            labor.work / f"{title.replace(' ', '-')}-{options.evidence_minutes:g}min-seed{seed}.jsonl",
            f"{trained}-{start}-{options.evidence_steps}-{options.evidence_minutes}-{labor.limit.at_most}",
            lambda one: train_shortly(trained, one, material, options.evidence_steps, supernet),
            clock=time.process_time,
        )
        evidence = gather_evidence(pool, sources, ledger, TrainingBudget(options.evidence_minutes, 200))
        ledger.close()
        return evidence

    def _pool(self, seed: int) -> Pool:
        device = self.table.devices[0]
        limits = [Limit("budget_ms", device.predictor.costs(), budget_ms, "ms") for budget_ms in device.budgets_ms]
        each = -(-POOL // len(limits))
        found = [one for limit in limits for one in feasible_networks(self.table.space, (limit,), each, seed)]
        return Pool(self.table.space, tuple({str(one.record()): one for one in found}.values()), (limits[-1],))

    def _drawn(self) -> NDArray[np.intp]:
        drawn: NDArray[np.intp] = np.random.default_rng(7).permutation(len(self.table.networks))[:300]
        return drawn

    def _sample(self) -> list[Genotype]:
        return [self.table.networks[place] for place in self._drawn()]

    def _sampled_accuracy(self) -> Array:
        return self.table.accuracy[self._drawn()]


def _tabulate(title: str, cases: Sequence[Case]) -> Iterator[str]:
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


def numbers(text: str) -> list[int]:
    """A list of numbers from the command line."""
    return [int(part) for part in text.split(",")]


def add_arguments(parser: argparse.ArgumentParser, work: str, cells: int) -> None:
    """What the benchmarks on tables share."""
    product = DiscretizeConfig()
    parser.add_argument("--images", type=Path, default=SHARED / "cifar10" / "cifar10_subset.npz")
    parser.add_argument("--seeds", type=numbers, default=[0])
    parser.add_argument("--variants", default="default", help=f"{', '.join(VARIANTS)} ({NOISE}: the search's null)")
    parser.add_argument("--ways", default="", help=f"{', '.join(WAYS)}; all if empty")
    parser.add_argument("--cells", type=int, default=cells, help="cells of the supernet")
    parser.add_argument("--channels", type=int, default=8, help="channels of the supernet")
    parser.add_argument("--resolution", type=int, default=16, help="of the images in searches and short trainings")
    parser.add_argument("--minutes", type=float, default=15.0, help="CPU minutes of one search")
    parser.add_argument(
        "--one-size", type=int, default=0, help="compare so many networks of each of three sizes, and no ways"
    )
    parser.add_argument("--rounds", type=int, default=product.max_rounds)
    parser.add_argument("--evidence-minutes", type=float, default=product.evidence_minutes)
    parser.add_argument("--evidence-steps", type=int, default=product.evidence_steps)
    parser.add_argument("--evaluations", type=int, default=product.evaluations)
    parser.add_argument("--work", type=Path, default=Path("runs/benchmarks") / work)


def run_contest(table: Table, limit: Limit, options: argparse.Namespace) -> None:
    """Print the tables as markdown; searches go by `limit`."""
    images = DataConfig(
        format="npz",
        path=str(options.images.absolute()),
        resolution=options.resolution,
        colour=True,
        augment="crop-flip",
    )
    labor = Labor(table.space, images, options.cells, options.channels, options.minutes, options.work, limit)
    for line in Contest(table, labor, options).report():
        print(line, flush=True)
