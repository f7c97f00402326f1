"""Pictures of a search: expected latency on its way to the limit, losses, and what would be selected over time."""

from collections import Counter
from collections.abc import Sequence
from typing import Any
from xml.etree.ElementTree import Element

from pipeline.errors import UserError
from pipeline.report.pictures.plot import Plot, operation_colours
from pipeline.report.pictures.scale import Point, range_of, thin
from pipeline.space.genotype import Genotype, genotype_from_record
from pipeline.space.spaces import space_named

Entries = Sequence[dict[str, Any]]


def curve(entries: Entries, name: str, over: str = "step") -> list[Point]:
    """A figure of the history over steps or epochs; entries without it are left out."""
    return [
        (float(entry[over]), float(entry[name]))
        for entry in entries
        if isinstance(entry.get(name), int | float) and isinstance(entry.get(over), int | float)
    ]


def draw_curves(
    curves: dict[str, list[Point]], x_label: str, y_label: str, limit: float | None = None
) -> Element | None:
    """Named curves of one kind on one axis, which starts at zero; with a limit, a dashed line."""
    curves = {name: points for name, points in curves.items() if points}
    if not curves:
        return None
    values = [y for points in curves.values() for _, y in points]
    places = [x for points in curves.values() for x, _ in points]
    plot = Plot(range_of(places, margin=0.0), range_of([*values, limit or 0.0], from_zero=True), x_label, y_label)
    for number, (name, points) in enumerate(curves.items()):
        plot.line(points, f"s{number}", name if len(curves) > 1 or limit is not None else "")
    if limit is not None:
        plot.level(limit, "limit", f"limit, {limit:.4g}")
    return plot.svg(f"{y_label} over {x_label}")


def draw_operation_shares(entries: Entries) -> Element | None:
    """The share of each operation in the network that would be selected at the end of each epoch, stacked."""
    found = [(entry["epoch"] + 1, genotype) for entry in entries if (genotype := _selected(entry)) is not None]
    if len(found) < 2:
        return None
    space = space_named(found[0][1].space)
    epochs, colours = [(epoch, _count_operations(one)) for epoch, one in found], operation_colours(space)
    names = sorted({name for _, counts in epochs for name in counts})
    at = {round(x) for x, _ in thin([(float(epoch), 0.0) for epoch, _ in epochs])}
    epochs = [(epoch, counts) for epoch, counts in epochs if epoch in at]
    plot = Plot(range_of([e for e, _ in epochs], margin=0.0), range_of([0.0, 1.0], margin=0.0), "epoch", "share")
    below = dict.fromkeys((epoch for epoch, _ in epochs), 0.0)
    for name in names:
        above = {epoch: below[epoch] + counts[name] / counts.total() for epoch, counts in epochs}
        plot.area([*above.items()], [*below.items()], colours[name], name)
        below = above
    return plot.svg("Share of each operation in the selected network, by epoch")


def _selected(entry: dict[str, Any]) -> Genotype | None:
    if not isinstance(entry.get("epoch"), int) or not isinstance(entry.get("genotype"), dict):
        return None
    try:
        return genotype_from_record(entry["genotype"])
    except UserError:
        return None


def _count_operations(genotype: Genotype) -> Counter[str]:
    kinds = space_named(genotype.space).kinds
    return Counter(kept.operation for kind in kinds for kept in genotype.kept(kind))
