"""What tells networks of one size apart, where accuracies are known: `--one-size 24` of benchmarks.tabular.

Three bands of networks with about the same multiply-adds; in each, Kendall's τ of the accuracies with what a search has
found, with zero-cost proxies, and with short trainings, from random weights and from those of its supernet (none with
`--evidence-steps 0`). Size itself is the null.
"""

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.tables import Array, Table, name_of
from benchmarks.tabular_search import Found, Labor
from pipeline.selection.judged import measure_judged
from pipeline.selection.short_training import train_shortly, trial_skeleton
from pipeline.selection.sources import measure_alpha, measure_zero_cost, proxy_skeleton
from pipeline.selection.standing import tau_of
from pipeline.selection.trials import Ledger
from pipeline.space.costs import mac_costs
from pipeline.space.genotype import Genotype

_BANDS, _WITHIN = (35, 60, 85), 0.08  # quantiles of multiply-adds, and how far a network may be off
_PROXY_IMAGES = 32
_SOUND = 60.0  # per cent: below are networks that hardly learn, which anything tells apart


class Bands(NamedTuple):
    """Places of networks in a table, by size."""

    table: Table
    places: list[NDArray[np.intp]]

    @property
    def networks(self) -> list[Genotype]:
        return [self.table.networks[place] for band in self.places for place in band]

    def row(self, name: str, figures: Array) -> str:
        """τ of the figures with the accuracies in each band, and the mean."""
        splits = np.cumsum([len(band) for band in self.places])[:-1]
        parts = zip(np.split(figures, splits), self.places, strict=True)
        taus = [tau_of(part, self.table.accuracy[band]) for part, band in parts]
        return f"| {name} | {' | '.join(f'{tau:+.2f}' for tau in taus)} | {np.mean(taus):+.2f} |"


def draw_bands(table: Table, each: int, seed: int) -> Bands:
    """Up to `each` random networks of every band, without those that have a `none` or hardly learn."""
    costs, generator = mac_costs(table.target), np.random.default_rng(seed)
    macs = np.array([costs.of(network) for network in table.networks])
    whole = np.array(["none" not in name_of(network) for network in table.networks])
    kept = whole & (table.accuracy > _SOUND)
    near = [
        np.flatnonzero(kept & (np.abs(macs / middle - 1) <= _WITHIN)) for middle in np.percentile(macs[kept], _BANDS)
    ]
    return Bands(table, [generator.permutation(band)[:each] for band in near])


def compare_within_size(table: Table, labor: Labor, found: Found, seed: int, each: int, steps: int) -> Iterator[str]:
    """A table: what the search has found, proxies, and short trainings from random weights and its supernet's."""
    bands, costs = draw_bands(table, each, seed), mac_costs(table.target)
    material, supernet, small = labor.material(seed), found.supernet, trial_skeleton(labor.skeleton)
    columns = " | ".join(f"{len(band)} networks" for band in bands.places)
    yield f"\n| tau within a size, seed {seed} | {columns} | mean |"
    yield "|---|" + "---|" * (len(_BANDS) + 1)
    yield bands.row("multiply-adds", np.array([costs.of(one) for one in bands.networks]))
    judged = measure_judged(found.judged)
    images, layout = next(material.training()).images[:_PROXY_IMAGES], proxy_skeleton(small, table.target)
    measures = [measure_alpha(labor.space, found.scores()), *([] if judged is None else [judged])]
    for measure in [*measures, *measure_zero_cost(layout, images, seed)]:
        figures = np.array([measure.of(one) for one in bands.networks])
        yield from (bands.row(name, column) for name, column in zip(measure.names, figures.T, strict=True))
    if not steps:
        return

    def trained(name: str, train: Callable[[Genotype], float]) -> str:
        title = f"one-size-{name}-{steps}-{labor.minutes:g}min-seed{seed}"
        ledger = Ledger(labor.work / f"{title}.jsonl", f"{title}-{each}", train, clock=time.process_time)
        ledger.try_out(bands.networks, lambda note: None)
        ledger.close()
        seconds = np.mean([float(entry["seconds"]) for entry in ledger.entries])
        return bands.row(f"{steps} steps from {name} weights ({seconds:.1f} CPU s)", -np.array(ledger.losses))

    yield trained("random", lambda one: train_shortly(small, one, material, steps))
    yield trained("inherited", lambda one: train_shortly(supernet.skeleton, one, material, steps, supernet))
