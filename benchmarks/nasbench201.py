"""How good the search is, where it can be known: NAS-Bench-201, all 15,625 cells with accuracy and latencies.

    python -m benchmarks.nasbench201 --seeds 3,4,5,6,7 --minutes 15             # the default, and its nulls
    python -m benchmarks.nasbench201 --variants mixture,first-order --ways alpha
    python -m benchmarks.nasbench201 --accuracy-column cifar10_valid_accuracy --quantiles 15,35,60,85

Searches run as `pipeline search` does, under a budget on one device (--budget-device, --budget-quantile), whose
budgets also make the pool of short trainings. For each device column and budgets at quantiles of its latencies (cells
under 0.05 ms left out), site times are fitted from 200 random cells. Settings were chosen on the cells of one random
half; tau is stated for it and for the other half. Searches are kept in the work folder and go on where they stopped.
"""

import argparse
from pathlib import Path

import numpy as np

from benchmarks.nasbench201_tables import SPACE, all_cells, fit_device, name_of, numeric_columns, read_column
from benchmarks.tables import Device, Table
from benchmarks.tabular import SHARED, add_arguments, numbers, run_contest
from pipeline.budget.limits import Limit
from pipeline.search_config import SearchConfig
from pipeline.space.genotype import Genotype
from pipeline.space.skeleton import Skeleton

TARGET = Skeleton(SPACE.name, cells=15, channels=16, resolution=32, classes=10)
LEAST_MS, FITTED_CELLS = 0.05, 200


def open_device(options: argparse.Namespace, name: str, cells: list[Genotype]) -> Device:
    """A column of latencies; cells that are too fast to be true fit nowhere."""
    column = read_column(options.latency, name)
    latencies = np.array([column.of[name_of(cell)] for cell in cells])
    known = np.flatnonzero(latencies >= LEAST_MS)
    drawn = np.random.default_rng(0).choice(known, FITTED_CELLS, replace=False)
    budgets = np.percentile(latencies[known], options.quantiles)
    kept = np.where(latencies >= LEAST_MS, latencies, np.inf)
    return Device(name, kept, fit_device(column, [cells[index] for index in drawn]), budgets.tolist())


def main() -> None:
    """Open the table and print what every way finds."""
    options = parse_arguments()
    cells, accuracy = all_cells(), read_column(options.accuracy, options.accuracy_column)
    names = options.devices.split(",") if options.devices else numeric_columns(options.latency)
    first = open_device(options, options.budget_device, cells)
    devices = [first, *(open_device(options, name, cells) for name in names if name != options.budget_device)]
    reached = np.array([accuracy.of[name_of(cell)] for cell in cells])
    finite = first.latencies[np.isfinite(first.latencies)]
    budget_ms = float(np.percentile(finite, options.budget_quantile))
    limit = Limit("budget_ms", first.predictor.costs(), budget_ms, "ms")
    run_contest(Table(TARGET, cells, reached, devices), limit, options)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser, "nasbench201", cells=SearchConfig().cells)
    parser.add_argument("--accuracy", type=Path, default=SHARED / "nasbench201" / "accuracy_cifar10.csv")
    parser.add_argument("--accuracy-column", default="cifar10_test_accuracy")
    parser.add_argument("--latency", type=Path, default=SHARED / "nasbench201" / "latency.csv")
    parser.add_argument("--devices", default="", help="columns of the latency file; all if empty")
    parser.add_argument("--quantiles", type=numbers, default=[10, 25, 50, 75], help="of latencies: the budgets")
    parser.add_argument("--budget-device", default="raspi4_ms", help="the search's own budget is on this one")
    parser.add_argument("--budget-quantile", type=int, default=50)
    return parser.parse_args()


if __name__ == "__main__":
    main()
