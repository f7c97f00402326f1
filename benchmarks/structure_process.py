"""What few short trainings tell of structure: the mean over all processes, and the likeliest one alone.

    python -m benchmarks.structure_process

Random DARTS cells of like size get made-up qualities: of operation counts and depths, of which operation stands where,
or of both. Some are seen with noise of the same variance; Kendall's τ is that of predictions for the others with
their quality, the mean of --draws, with its standard error. Beside them a ridge on the same structure.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.darts_networks import networks_of_like_size
from benchmarks.tabular import numbers
from pipeline.selection.earned_weights import normal_scores
from pipeline.selection.standing import tau_of
from pipeline.selection.structure import counts_and_depths, effective, one_hot
from pipeline.selection.structure_process import Array, Shapes, StructureProcess
from pipeline.space.genotype import Genotype
from pipeline.space.spaces import space_named

_RIDGE = 0.8

Rows = NDArray[np.intp]


class Field(NamedTuple):
    """Networks as the process sees them, and as columns of numbers for everything else."""

    shapes: Shapes
    counts: Array
    chosen: Array

    @classmethod
    def of(cls, networks: Sequence[Genotype]) -> "Field":
        space, counts = space_named("darts"), np.array([counts_and_depths(one) for one in networks])
        chosen = np.array([one_hot(space, one) for one in networks])
        scaled = (counts - counts.mean(0)) / (counts.std(0) + 1e-9)
        return cls(Shapes(counts, [effective(one) for one in networks]), scaled, chosen - chosen.mean(0))

    def part(self, rows: Rows) -> Shapes:
        return Shapes(self.shapes.counts[rows], [self.shapes.choices[row] for row in rows])

    def qualities(self, kind: str, generator: np.random.Generator) -> Array:
        """Made-up qualities of variance 1."""
        parts = {"counts": [self.counts], "places": [self.chosen], "both": [self.counts, self.chosen]}.get(kind, [])
        total = np.zeros(len(self.counts))
        for columns in parts:
            found = columns @ generator.normal(size=columns.shape[1])
            total += found / found.std()
        return np.asarray(total / (total.std() or 1.0))


def predict_likeliest(field: Field, seen: Rows, values: Array, asked: Rows) -> Array:
    """By the process of the largest marginal likelihood alone."""
    process = StructureProcess(field.part(seen), values)
    process.fits = [max(process.fits, key=lambda fit: fit.share)._replace(share=1.0)]
    return process.predict(field.part(asked)).mean


def predict_all(field: Field, seen: Rows, values: Array, asked: Rows) -> Array:
    """As the product does."""
    return StructureProcess(field.part(seen), values).predict(field.part(asked)).mean


def predict_linear(field: Field, seen: Rows, values: Array, asked: Rows) -> Array:
    """By a ridge on counts, depths and choices."""
    columns = np.hstack([field.counts, field.chosen])
    kernel = columns @ columns[seen].T / columns.shape[1]
    solved = np.linalg.solve(kernel[seen] + _RIDGE * np.eye(len(seen)), values)
    return np.asarray(kernel[asked] @ solved)


WAYS: dict[str, Callable[[Field, Rows, Array, Rows], Array]] = {
    "likeliest": predict_likeliest,
    "mean over all": predict_all,
    "ridge": predict_linear,
}


def compare(field: Field, kind: str, seen_count: int, draws: int) -> Iterator[str]:
    """A row of the table."""
    taus: dict[str, list[float]] = {name: [] for name in WAYS}
    for seed in range(draws):
        generator = np.random.default_rng(seed)
        quality = field.qualities(kind, generator)
        order = generator.permutation(len(quality))
        seen, asked = order[:seen_count], order[seen_count:]
        values = normal_scores(quality[seen] + generator.normal(size=seen_count))
        for name, predict in WAYS.items():
            taus[name].append(tau_of(predict(field, seen, values, asked), quality[asked]))
    yield from (f"{np.mean(found):.2f} ± {np.std(found) / draws**0.5:.2f}" for found in taus.values())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", type=int, default=180)
    parser.add_argument("--seen", type=numbers, default=[20, 40, 80])
    parser.add_argument("--draws", type=int, default=30)
    options = parser.parse_args()
    field = Field.of(networks_of_like_size(options.networks))
    print(f"| quality by | networks seen | {' | '.join(WAYS)} |\n|---|---|{'---|' * len(WAYS)}")
    for kind in ("counts", "places", "both"):
        for seen in options.seen:
            print(f"| {kind} | {seen} | {' | '.join(compare(field, kind, seen, options.draws))} |", flush=True)


if __name__ == "__main__":
    main()
