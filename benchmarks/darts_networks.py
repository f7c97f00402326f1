"""How well networks of the DARTS space are ranked among others of their size, where no table knows their accuracies.

    python -m benchmarks.darts_networks --networks 20 --parts truth              # longer trainings stand for the truth
    python -m benchmarks.darts_networks --networks 20 --parts size,proxies,short,search --minutes 20

Random cells whose multiply-adds at 20 cells and 36 channels lie within 5 % of the median are trained in 8 cells of 8
channels at 16 px with batches of 64, for eight times the steps of a short training. What ranks them is compared with
that by Kendall's τ, with a bootstrap interval; size, the null, should have none. Trainings and searches are kept in the
work folder and go on where they stopped; those that stand for the truth are in darts_truth_1600.jsonl, too.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.tables import Array
from benchmarks.tabular import SHARED, numbers
from benchmarks.tabular_search import CPU, DEFAULT, Labor, run_search_once
from pipeline.budget.limits import Limit
from pipeline.config import DataConfig, DiscretizeConfig
from pipeline.data import load_data
from pipeline.selection.judged import measure_judged
from pipeline.selection.short_training import Material, train_shortly, trial_skeleton
from pipeline.selection.sources import Sources, measure_alpha, measure_size, measure_zero_cost, proxy_skeleton
from pipeline.selection.standing import tau_of
from pipeline.selection.trials import Ledger
from pipeline.space.costs import mac_costs
from pipeline.space.genotype import Genotype
from pipeline.space.sampling import random_genotype
from pipeline.space.skeleton import Skeleton
from pipeline.space.spaces import space_named
from pipeline.whole_files import write_text

LITERATURE = Skeleton("darts", cells=20, channels=36, resolution=32, classes=10)
TRUTH = Skeleton("darts", cells=8, channels=8, resolution=16, classes=10, in_channels=3)
_TRUTH_BATCH, _TRUTH_SHARE = 64, 0.2  # of the images are kept to judge by
_DRAWN, _WITHIN, _RESAMPLES = 2000, 0.05, 1000
_PROXY_IMAGES = 32


class Ranking(NamedTuple):
    """A figure of every network, higher meant to be better."""

    name: str
    figures: Array


def networks_of_like_size(count: int, seed: int = 1) -> list[Genotype]:
    """Uniform random cells whose multiply-adds are near the median of all."""
    generator, costs = np.random.default_rng(seed), mac_costs(LITERATURE)
    drawn = [random_genotype("darts", generator) for _ in range(_DRAWN)]
    macs = np.array([costs.of(one) for one in drawn])
    near = np.flatnonzero(np.abs(macs / np.median(macs) - 1) <= _WITHIN)
    return [drawn[index] for index in near[:count]]


class Bench:
    """The networks, and everything that ranks them."""

    def __init__(self, options: argparse.Namespace, networks: Sequence[Genotype]) -> None:
        self.options, self.networks = options, networks

    def images(self, validation_share: float) -> DataConfig:
        path, share = str(self.options.images.absolute()), validation_share
        return DataConfig(
            format="npz", path=path, resolution=16, colour=True, augment="crop-flip", validation_share=share
        )

    def truth(self) -> Ranking:
        """What the networks reach after a longer training; those that were trained before stand beside this file."""
        steps, images = self.options.truth_steps, self.images(_TRUTH_SHARE)
        known, path = Path(__file__).with_name(f"darts_truth_{steps}.jsonl"), self._ledger(f"truth-{steps}")
        if known.is_file() and not path.exists():
            write_text(path, known.read_text())
        material = Material(load_data(images, Path(), 0), _TRUTH_BATCH, 0, images.augment, CPU)
        return self._trained(f"truth-{steps}", lambda one: train_shortly(TRUTH, one, material, steps))

    def rankings(self, part: str) -> Iterator[Ranking]:
        """Those of one part."""
        labor = self._labor()
        small = trial_skeleton(labor.skeleton)
        if part == "size":
            yield from self._by_sources(Sources([measure_size(LITERATURE)]))
        elif part == "proxies":
            images = next(labor.material(0).training()).images[:_PROXY_IMAGES]
            layout = proxy_skeleton(labor.skeleton, LITERATURE)
            yield from self._by_sources(Sources(measure_zero_cost(layout, images, 0)))
        elif part == "short":
            steps, material = self.options.steps, labor.material(0)
            yield self._trained(f"short-{steps}", lambda one: train_shortly(small, one, material, steps))
        elif part == "search":
            for seed in self.options.seeds:
                yield from self._by_search(labor, seed)

    def _labor(self) -> Labor:
        """A search as the product's, with multiply-adds for milliseconds and the networks' size for a budget."""
        options, costs = self.options, mac_costs(LITERATURE)
        limit = Limit("budget_ms", costs, float(np.median([costs.of(one) for one in self.networks])), "ms")
        images = self.images(DataConfig().validation_share)
        space = space_named("darts")
        return Labor(space, images, options.cells, options.channels, options.minutes, options.work, limit)

    def _by_search(self, labor: Labor, seed: int) -> Iterator[Ranking]:
        found = run_search_once(labor, DEFAULT, seed)
        judged = measure_judged(found.judged)
        measures = [measure_alpha(labor.space, found.scores()), *([] if judged is None else [judged])]
        parts = list(self._by_sources(Sources(measures)))
        yield from (part._replace(name=f"{part.name}, seed {seed}") for part in parts)
        spread = [part.figures / (part.figures.std() or 1.0) for part in parts]
        title = f"search alone, seed {seed} ({found.epochs} epochs, {found.minutes:.1f} CPU minutes)"
        yield Ranking(title, np.sum(spread, axis=0))
        steps, material, supernet = self.options.steps, labor.material(seed), found.supernet
        name = f"inherited-{steps}-{self.options.minutes:g}min-seed{seed}"
        yield self._trained(name, lambda one: train_shortly(supernet.skeleton, one, material, steps, supernet))

    def _by_sources(self, sources: Sources) -> Iterator[Ranking]:
        table = np.array([sources.figures(one) for one in self.networks])
        yield from (Ranking(name, column) for name, column in zip(sources.names, table.T, strict=True))

    def _ledger(self, name: str) -> Path:
        work: Path = self.options.work
        return work / f"{name}.jsonl"

    def _trained(self, name: str, train: Callable[[Genotype], float]) -> Ranking:
        """By validation losses, which are on disk as each is known."""
        ledger = Ledger(self._ledger(name), name, train, clock=time.process_time)
        ledger.try_out(self.networks, lambda note: print(f"{name}: {note}", flush=True))
        ledger.close()
        return Ranking(name, -np.array(ledger.losses))


def describe(ranking: Ranking, truth: Array) -> str:
    """A row of the table: τ with the truth and its interval over networks."""
    drawn = np.random.default_rng(0).integers(len(truth), size=(_RESAMPLES, len(truth)))
    low, high = np.percentile([tau_of(ranking.figures[rows], truth[rows]) for rows in drawn], [2.5, 97.5])
    return f"| {ranking.name} | {tau_of(ranking.figures, truth):+.2f} | {low:+.2f} … {high:+.2f} |"


def make_parser(description: str | None, work: str) -> argparse.ArgumentParser:
    """What decides how networks of the space are judged."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="size,proxies,short,search", help="what ranks the networks")
    parser.add_argument("--images", type=Path, default=SHARED / "cifar10" / "cifar10_subset.npz")
    parser.add_argument("--steps", type=int, default=DiscretizeConfig().evidence_steps, help="of short trainings")
    parser.add_argument("--seeds", type=numbers, default=[0], help="of searches")
    parser.add_argument("--minutes", type=float, default=20.0, help="CPU minutes of one search")
    parser.add_argument("--cells", type=int, default=5, help="cells of the supernet")
    parser.add_argument("--channels", type=int, default=8, help="channels of the supernet")
    parser.add_argument("--work", type=Path, default=Path("runs/benchmarks") / work)
    return parser


def main() -> None:
    """Train what stands for the truth, and print how each ranking agrees with it."""
    parser = make_parser(__doc__, work="darts_networks")
    parser.add_argument("--networks", type=int, default=20)
    parser.add_argument("--truth-steps", type=int, default=1600)
    options = parser.parse_args()
    bench = Bench(options, networks_of_like_size(options.networks))
    truth = bench.truth().figures
    print("\n| ranking | tau | 95 % |\n|---|---|---|")
    for part in options.parts.split(","):
        for ranking in bench.rankings(part):
            print(describe(ranking, truth), flush=True)


if __name__ == "__main__":
    main()
