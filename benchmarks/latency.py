"""How well latency is predicted: random networks outside the fit, beside the sum of single-operation medians.

    python -m benchmarks.latency --cells 8 --channels 16                 # profile, validate on 100 networks, print
    python -m benchmarks.latency --cells 8 --channels 16 --out later     # the same again, half an hour later
    python -m benchmarks.latency --compare FOLDER_A FOLDER_B             # repeatability of the sites of two profiles

A stopped run goes on where it was: everything is kept in the folder given by --out.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from rich.progress import Progress

from pipeline.artifacts.latency_table import LatencyTable, NetworkTime, SkeletonEntry
from pipeline.latency.calibration import fit, predict, sum_sites
from pipeline.latency.campaign import Campaign
from pipeline.latency.devices import open_device
from pipeline.latency.measure import Device, Effort, measure_models
from pipeline.latency.models import make_model, make_sentinel
from pipeline.latency.probes import maps_read
from pipeline.latency.profiling import profile_device
from pipeline.latency.validity import scores
from pipeline.report.pictures.latency import draw_costs, draw_predictions, save_picture
from pipeline.space import operations
from pipeline.space.genotype import genotype_from_record
from pipeline.space.layers import Normalization
from pipeline.space.plan import all_sites, network_sites
from pipeline.space.sites import Site
from pipeline.space.skeleton import Skeleton

Array = NDArray[np.float64]


def main() -> None:
    """Profile and print, or compare two profiles."""
    options = parse_arguments()
    if options.compare:
        print(repeatability(*(LatencyTable.read(only_table(folder)) for folder in options.compare)))
        return
    torch.set_num_threads(1)
    skeleton = Skeleton(options.space, options.cells, options.channels, options.resolution, classes=10)
    device = open_device(options.device, options.threads)
    effort = Effort(rounds=options.rounds, extra_rounds=options.rounds)
    campaign = Campaign((skeleton,), calibration_networks=options.calibration, validation_networks=options.networks)
    folder = options.out or Path("runs/benchmarks/latency") / f"{skeleton.space}-{skeleton.cells}x{skeleton.channels}"
    seconds = profile(device, campaign, effort, folder)
    singles = single_medians(device, skeleton, effort, folder / "singles.json")
    table = LatencyTable.read(only_table(folder))
    entry = table.column("fp32").entry(skeleton)
    assert entry is not None
    save_picture(draw_costs(table.column("fp32"), skeleton), folder / "costs.svg")
    save_picture(draw_predictions(table.column("fp32"), entry), folder / "predictions.svg")
    print(report(table, skeleton, entry, singles, seconds))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--space", default="darts")
    parser.add_argument("--cells", type=int, default=8)
    parser.add_argument("--channels", type=int, default=16)
    parser.add_argument("--resolution", type=int, default=32)
    parser.add_argument("--networks", type=int, default=100, help="networks outside the fit")
    parser.add_argument("--calibration", type=int, default=40, help="networks in the fit")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--compare", type=Path, nargs=2, metavar="FOLDER")
    return parser.parse_args()


def tables_in(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*__*.json") if not path.name.startswith(".")]


def only_table(folder: Path) -> Path:
    (path,) = tables_in(folder)
    return path


def profile(device: Device, campaign: Campaign, effort: Effort, folder: Path) -> float:
    """Make the table unless it is there; returns the seconds it took, over all attempts."""
    clock = folder / "seconds.json"
    spent = json.loads(clock.read_text()) if clock.exists() else 0.0
    if tables_in(folder):
        return float(spent)
    folder.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    with Progress() as bar:
        task = bar.add_task("profile", total=1.0)

        def update(share: float, note: str) -> None:
            bar.update(task, completed=share, description=f"profile: {note}")
            clock.write_text(json.dumps(spent + time.monotonic() - started))

        profile_device(device, campaign, effort, folder, update)
    return float(spent + time.monotonic() - started)


def single_medians(device: Device, skeleton: Skeleton, effort: Effort, path: Path) -> dict[str, float]:
    """The baseline: the median time of a session that runs one operation."""
    if path.exists():
        return dict(json.loads(path.read_text()))
    models = {}
    for site in all_sites(skeleton):
        inputs = [torch.rand(1, site.channels_in, site.resolution, site.resolution) for _ in range(maps_read(site))]
        models[site.key] = make_model(device, operations.build(site, Normalization()), inputs)
    timings = measure_models(device, models, make_sentinel(device), effort).timings
    medians = {name: timing.p50_ms for name, timing in timings.items()}
    path.write_text(json.dumps(medians))
    return medians


def baseline_sums(skeleton: Skeleton, singles: dict[str, float], networks: list[NetworkTime]) -> Array:
    def total(sites: list[Site]) -> float:
        return sum(singles[site.key] for site in sites)

    return np.array([total(network_sites(skeleton, genotype_from_record(n.genotype))) for n in networks])


def measured_ms(networks: list[NetworkTime]) -> Array:
    return np.array([network.p50_ms for network in networks])


def report(
    table: LatencyTable, skeleton: Skeleton, entry: SkeletonEntry, singles: dict[str, float], seconds: float
) -> str:
    """The figures as markdown."""
    column, made = table.column("fp32"), table.fingerprint
    fitted, tested = entry.calibration_networks, entry.validation_networks
    truth = measured_ms(tested)
    sums, tests = sum_sites(skeleton, column.sites, fitted), sum_sites(skeleton, column.sites, tested)
    executed = sum_sites(skeleton, column.sites, tested, entry.calibration.merged)
    plain = fit(sums.total[:, None], measured_ms(fitted))
    single_fit = fit(baseline_sums(skeleton, singles, fitted)[:, None], measured_ms(fitted))
    single = baseline_sums(skeleton, singles, tested)
    rows = {
        "this table": predict(entry.calibration, executed),
        "κ·s + b alone": tests.total * plain.kappas[0] + plain.b_ms,
        "sum of single-operation medians": single,
        "the same, calibrated": single * single_fit.kappas[0] + single_fit.b_ms,
    }
    lines = [
        f"### {skeleton.space}, {skeleton.cells} cells, {skeleton.channels} channels, {skeleton.resolution} px",
        "",
        f"{made.processor}, {made.cores} cores; {made.runtime} {made.runtime_version}, {made.provider}, "
        f"{made.threads} thread(s), batch {made.batch}, fp32; measured {table.measured}. "
        f"Noise floor {column.noise_floor:.1%}. "
        f"{len(column.sites)} sites and {len(fitted)} + {len(tested)} networks in {seconds:.0f} s.",
        "",
        f"{len(tested)} networks outside the fit, {truth.min():.2f} to {truth.max():.2f} ms:",
        "",
        "| prediction | within ±10 % | MAPE | Kendall τ | largest error |",
        "|---|---|---|---|---|",
    ]
    for name, predicted in rows.items():
        mape, within, tau = scores(predicted, truth)
        worst = np.abs(predicted / truth - 1.0).max()
        lines.append(f"| {name} | {within:.0%} | {mape:.1%} | {tau:.3f} | {worst:.1%} |")
    used = entry.calibration
    ratios = f"p95/p50 {used.p95_ratio:.2f}, p99/p50 {used.p99_ratio:.2f}"
    lines += ["", f"κ = {used.kappa:.3f}, b = {used.b_ms:.3f} ms, {len(used.corrections)} groups corrected, "]
    lines[-1] += f"95 % interval ±{used.interval:.1%}, {ratios}."
    return "\n".join(lines)


def repeatability(a: LatencyTable, b: LatencyTable) -> str:
    """How far the sites of two profiles are apart."""
    first, second = a.column("fp32").sites, b.column("fp32").sites
    keys = [key for key in first if key in second and first[key].p50_ms > 0]
    changes = np.array([abs(second[key].p50_ms / first[key].p50_ms - 1.0) for key in keys])
    return (
        f"{a.measured} against {b.measured}, {len(keys)} sites: median change {np.median(changes):.1%}, "
        f"90 % within {np.percentile(changes, 90):.1%}, largest {changes.max():.1%} ({keys[int(changes.argmax())]}). "
        f"Noise floors {a.column('fp32').noise_floor:.1%} and {b.column('fp32').noise_floor:.1%}."
    )


if __name__ == "__main__":
    main()
