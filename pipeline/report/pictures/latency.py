"""Pictures of a table: what operations cost at each stage of the network, and predictions against measurements."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipeline.artifacts.latency_table import Column, NetworkTime, SkeletonEntry
from pipeline.fingerprint import Fingerprint
from pipeline.latency.calibration import predict, sum_sites
from pipeline.latency.validity import describe_validation
from pipeline.rundir import writing
from pipeline.space.plan import choice_sites, plan_of
from pipeline.space.sites import Site
from pipeline.space.skeleton import Skeleton
from pipeline.space.spaces import space_named

_DPI = 120
_US_PER_MS = 1000.0


def draw_costs(column: Column, skeleton: Skeleton, device: Fingerprint, path: Path) -> None:
    """Bars: every operation that may be chosen, at every place (width, stride, resolution) of the network."""
    plan, space = plan_of(skeleton), space_named(skeleton.space)
    choosable = {operation for kind in space.kinds for operation in kind.choosable}
    sites = {site for own in choice_sites(plan, space).values() for site in own if site.operation in choosable}
    places = sorted({_Place.of(site) for site in sites}, key=lambda p: (-p.resolution, p.stride, p.channels_in))
    operations = [o for o in dict.fromkeys(o for kind in space.kinds for o in kind.operations) if o in choosable]
    figure = Figure(figsize=(max(8.0, 2.2 * len(places)), 4.5), layout="constrained")
    axes = figure.add_subplot()
    width = 0.8 / len(operations)
    for index, operation in enumerate(operations):
        here = [Site(operation, *place) for place in places]
        times = [column.sites[s.key].p50_ms * _US_PER_MS if s in sites else 0.0 for s in here]
        offsets = np.arange(len(places)) + (index - (len(operations) - 1) / 2) * width
        axes.bar(offsets, times, width, label=operation, color=f"C{index}")
    axes.set_xticks(range(len(places)), [place.label for place in places])
    axes.set_ylabel("one operation, µs")
    axes.set_title(f"Cost of operations on {device.processor}, {device.threads} thread(s), {device.runtime}")
    axes.legend(ncols=2, fontsize="small", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    _save(figure, path)


class _Place(NamedTuple):
    """A site without its operation."""

    channels_in: int
    channels_out: int
    stride: int
    resolution: int

    @classmethod
    def of(cls, site: Site) -> "_Place":
        return cls(site.channels_in, site.channels_out, site.stride, site.resolution)

    @property
    def label(self) -> str:
        width = f"{self.channels_in}" + (f" → {self.channels_out}" if self.channels_out != self.channels_in else "")
        return f"{width} channels, {self.resolution} px\n" + (f"stride {self.stride}" if self.stride > 1 else "")


def draw_predictions(column: Column, entry: SkeletonEntry, path: Path) -> None:
    """Scatter: predicted against measured, with the ±10 % band; what was fitted and what was not."""
    figure = Figure(figsize=(5.5, 5.5), layout="constrained")
    axes = figure.add_subplot()
    skeleton = Skeleton(**entry.skeleton)
    highest = 0.0
    for networks, label, marker in (
        (entry.calibration_networks, "calibration", "o"),
        (entry.validation_networks, "validation (not in the fit)", "D"),
    ):
        if networks:
            highest = max(highest, _scatter(axes, column, entry, skeleton, networks, label, marker))
    line = np.array([0.0, 1.08 * highest])
    axes.plot(line, line, color="0.3", linewidth=1)
    axes.fill_between(line, 0.9 * line, 1.1 * line, color="0.85", zorder=0, label="±10 %")
    axes.set(xlim=(0, line[1]), ylim=(0, line[1]), xlabel="measured, ms", ylabel="predicted, ms", aspect="equal")
    axes.set_title(
        f"{skeleton.cells} cells, {skeleton.channels} channels, {skeleton.resolution} px: {_summary(entry)}",
        fontsize="medium",
    )
    axes.legend(frameon=False, loc="upper left")
    axes.spines[["top", "right"]].set_visible(False)
    _save(figure, path)


def _scatter(
    axes: Axes,
    column: Column,
    entry: SkeletonEntry,
    skeleton: Skeleton,
    networks: list[NetworkTime],
    label: str,
    marker: str,
) -> float:
    predicted = predict(entry.calibration, sum_sites(skeleton, column.sites, networks, entry.calibration.merged))
    measured = np.array([network.p50_ms for network in networks])
    axes.scatter(measured, predicted, s=22, marker=marker, label=label, alpha=0.8)
    return float(max(predicted.max(), measured.max()))


def _summary(entry: SkeletonEntry) -> str:
    if entry.validation is None:
        return describe_validation(None)
    return f"error {entry.validation.mape:.1%}, {entry.validation.within_10:.0%} in band"


def _save(figure: Figure, path: Path) -> None:
    with writing(path) as part:
        figure.savefig(part, dpi=_DPI, format="png")
