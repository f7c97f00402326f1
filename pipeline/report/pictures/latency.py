"""Pictures of a table: what operations cost at each stage of the network, and predictions against measurements."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree.ElementTree import Element

import numpy as np

from pipeline.artifacts.latency_table import Column, NetworkTime, SkeletonEntry
from pipeline.latency.calibration import predict, sum_sites
from pipeline.report.markup import render_svg
from pipeline.report.pictures.plot import Plot, operation_colours
from pipeline.report.pictures.scale import Point, Range, range_of
from pipeline.report.style import PICTURE_STYLE
from pipeline.space.plan import choice_sites, plan_of
from pipeline.space.sites import Site
from pipeline.space.skeleton import Skeleton
from pipeline.space.spaces import space_named
from pipeline.whole_files import write_text

_US_PER_MS = 1000.0


def draw_costs(column: Column, skeleton: Skeleton) -> Element:
    """Bars: every operation that may be chosen, at every place (width, stride, resolution) of the network."""
    plan, space = plan_of(skeleton), space_named(skeleton.space)
    choosable = {operation for kind in space.kinds for operation in kind.choosable}
    sites = {site for own in choice_sites(plan, space).values() for site in own if site.operation in choosable}
    places = sorted({_Place.of(site) for site in sites}, key=lambda p: (-p.resolution, p.stride, p.channels_in))
    operations = [o for o in dict.fromkeys(o for kind in space.kinds for o in kind.operations) if o in choosable]
    times = {site: column.sites[site.key].p50_ms * _US_PER_MS for site in sites}
    plot = Plot(
        Range(-0.5, len(places) - 0.5), range_of(times.values(), from_zero=True), "place", "one operation, µs", ()
    )
    width, colours = 0.85 / len(operations), operation_colours(space)
    for index, operation in enumerate(operations):
        for number, place in enumerate(places):
            site = Site(operation, *place)
            if site in times:
                left = number - 0.425 + index * width
                hint = f"{operation}, {place.label}: {times[site]:.1f} µs"
                plot.bar(left, left + width, times[site], colours[operation], hint)
        plot.name(operation, colours[operation])
    if len(places) <= 6:
        for number, place in enumerate(places):
            plot.text((number, 0.0), place.short, lift_px=-15)
    return plot.svg(f"What every operation takes at {len(places)} places of the network")


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
    def short(self) -> str:
        return f"{self.channels_out}@{self.resolution}" + (f"/{self.stride}" if self.stride > 1 else "")

    @property
    def label(self) -> str:
        width = f"{self.channels_in}" + (f" → {self.channels_out}" if self.channels_out != self.channels_in else "")
        return f"{width} channels, {self.resolution} px" + (f", stride {self.stride}" if self.stride > 1 else "")


def draw_predictions(column: Column, entry: SkeletonEntry) -> Element:
    """Scatter: predicted against measured, with the ±10 % band; what was fitted and what was not."""
    fitted, others = (_pairs(column, entry, own) for own in (entry.calibration_networks, entry.validation_networks))
    values = [value for pair in (*fitted, *others) for value in pair]
    shown = range_of(values, margin=0.08)
    shown = Range(max(shown.low, 0.0), shown.high)
    plot = Plot(shown, shown, "measured, ms", "predicted, ms", height=360)
    ends = (shown.low, shown.high)
    low, high = ends  # the band bends where it meets the frame
    upper = [(low, 1.1 * low), (high / 1.1, high), (high, high)]
    lower = [(low, low), (low / 0.9, low), (high, 0.9 * high)]
    plot.area(upper, lower, "quiet", "±10 %")
    plot.line([(ms, ms) for ms in ends], "limit", "as predicted", "dash")
    plot.points(fitted, "s4", "in the fit")
    plot.points(others, "s5", "not in the fit", "diamond")
    return plot.svg("Predicted against measured latency of whole networks")


def _pairs(column: Column, entry: SkeletonEntry, networks: Sequence[NetworkTime]) -> list[Point]:
    if not networks:
        return []
    skeleton = Skeleton(**entry.skeleton)
    predicted = predict(entry.calibration, sum_sites(skeleton, column.sites, networks, entry.calibration.merged))
    return list(zip([network.p50_ms for network in networks], np.asarray(predicted).tolist(), strict=True))


def save_picture(picture: Element, path: Path) -> None:
    """A picture as an SVG file of its own."""
    write_text(path, render_svg(picture, PICTURE_STYLE))
