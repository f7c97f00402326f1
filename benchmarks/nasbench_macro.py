"""The same in a space of layers: NAS-Bench-Macro, 6,561 codes with accuracy and multiply-adds.

    python -m benchmarks.nasbench_macro --seeds 0,1,2 --minutes 15

Everything is at the defaults of the other spaces. The device takes a millisecond per million multiply-adds, which a sum
over choices predicts exactly; its budgets are the nine deciles, and the search runs under the fifth.
"""

import argparse
import csv
import json
from pathlib import Path

import numpy as np

from benchmarks.tables import Device, FittedDevice, Table
from benchmarks.tabular import SHARED, add_arguments, run_contest
from pipeline.budget.limits import Limit
from pipeline.space.costs import Costs, mac_costs
from pipeline.space.genotype import Genotype, genotype_from_record
from pipeline.space.skeleton import Skeleton

TARGET = Skeleton("nasbench-macro", cells=8, channels=32, resolution=32, classes=10)
_OPERATIONS = ("skip", "mb3_k3", "mb6_k5")  # the digits of a code
_DECILES = range(10, 100, 10)
_MILLION = 1e6


def genotype_of(code: str) -> Genotype:
    """The network with the published code of eight digits."""
    return genotype_from_record({"space": TARGET.space, "layers": [_OPERATIONS[int(digit)] for digit in code]})


def open_table(path: Path) -> Table:
    """The 3,969 different networks, each with the mean of its codes' accuracies, and multiply-adds for a device."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    reached = dict[str, list[float]]()
    for row in rows:
        arranged = genotype_of(row["arch"]).canonical()
        reached.setdefault(json.dumps(arranged.record()), []).append(float(row["test_mean"]))
    networks, macs = [genotype_from_record(json.loads(name)) for name in reached], mac_costs(TARGET)
    costs = Costs(macs.fixed / _MILLION, {kind: choices / _MILLION for kind, choices in macs.choices.items()})
    latencies = np.array([costs.of(network) for network in networks])
    device = Device("macs", latencies, FittedDevice(costs, 0.0), np.percentile(latencies, list(_DECILES)).tolist())
    return Table(TARGET, networks, np.array([np.mean(each) for each in reached.values()]), [device])


def main() -> None:
    """Open the table and print what every way finds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser, "nasbench_macro", cells=TARGET.cells)
    parser.add_argument("--accuracy", type=Path, default=SHARED / "nasbench_macro" / "accuracy_cifar10.csv")
    options = parser.parse_args()
    table = open_table(options.accuracy)
    device = table.devices[0]
    limit = Limit("budget_ms", device.predictor.costs(), device.budgets_ms[len(device.budgets_ms) // 2], "ms")
    run_contest(table, limit, options)


if __name__ == "__main__":
    main()
