"""Do our judges prefer cells that others have found good, among random ones of their size?

    python -m benchmarks.published_cells --peers 8 --parts size,proxies,short,search --minutes 15

Ten cells of the DARTS space (published_cells.jsonl, from the papers that are named there) reach 2.5 to 3.0 % test error
on CIFAR-10 at 20 cells and 36 channels, where random ones reach 3.3 % (DARTS, table 1). So a judge that is any good
puts them before most of their peers: random cells whose multiply-adds lie within 3 %. Stated is the share of its peers
that a published cell is put before, in the mean over cells; 50 % is chance. They come of searches themselves, though of
other code and full training afterwards. Options, work folder and judges are those of benchmarks.darts_networks.
"""

import argparse
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.darts_networks import LITERATURE, Bench, Ranking, make_parser
from benchmarks.tables import Array
from pipeline.space.costs import mac_costs
from pipeline.space.genotype import Genotype, genotype_from_record
from pipeline.space.sampling import random_genotype

_FILE = Path(__file__).with_suffix(".jsonl")
_DRAWN, _WITHIN, _RESAMPLES = 4000, 0.03, 1000


class Published(NamedTuple):
    """A cell of the literature."""

    name: str
    genotype: Genotype


def published_cells() -> list[Published]:
    """Those of the file beside this one."""
    rows = [json.loads(line) for line in _FILE.read_text().splitlines()]
    return [Published(row["name"], genotype_from_record(row["genotype"])) for row in rows]


def peers_of(cells: list[Published], each: int, seed: int = 2) -> list[Genotype]:
    """`each` random cells as large as the first, then as many as large as the second, …; no cell twice."""
    generator, costs = np.random.default_rng(seed), mac_costs(LITERATURE)
    drawn = [random_genotype("darts", generator) for _ in range(_DRAWN)]
    macs, found = np.array([costs.of(one) for one in drawn]), list[int]()
    for cell in cells:
        near = np.flatnonzero(np.abs(macs / costs.of(cell.genotype) - 1) <= _WITHIN)
        fresh = [int(place) for place in near if place not in found]
        if len(fresh) < each:
            raise SystemExit(f"only {len(fresh)} of {_DRAWN} random cells are as large as that of {cell.name}")
        found += fresh[:each]
    return [drawn[place] for place in found]


def shares_beaten(figures: Array, cells: int) -> Array:
    """For every published cell, first in the row, the share of its peers, which follow, that are below it; a tie is
    half of one."""
    published, peers = figures[:cells, None], figures[cells:].reshape(cells, -1)
    shares: Array = ((peers < published) + (peers == published) / 2).mean(1)
    return shares


def describe(ranking: Ranking, cells: int) -> str:
    """A row of the table: the mean share and its bootstrap interval over published cells."""
    shares = shares_beaten(ranking.figures, cells)
    drawn = np.random.default_rng(0).integers(cells, size=(_RESAMPLES, cells))
    low, high = np.percentile(shares[drawn].mean(1), [2.5, 97.5])
    return f"| {ranking.name} | {shares.mean():.0%} | {low:.0%} … {high:.0%} |"


def main() -> None:
    """Rank the cells and their peers by every judge, and print how the published ones stand."""
    options, cells = parse_arguments(), published_cells()
    bench = Bench(options, [*(cell.genotype for cell in cells), *peers_of(cells, options.peers)])
    print("| ranking | peers below a published cell | 95 % |\n|---|---|---|")
    for part in options.parts.split(","):
        for ranking in bench.rankings(part):
            print(describe(ranking, len(cells)), flush=True)


def parse_arguments() -> argparse.Namespace:
    parser = make_parser(__doc__, work="published_cells")
    parser.add_argument("--peers", type=int, default=8, help="random cells for every published one")
    return parser.parse_args()


if __name__ == "__main__":
    main()
