"""Pictures of a search: expected latency on its way to the limit, losses, and what would be selected over time."""

from collections import Counter
from collections.abc import Sequence
from typing import Any
from xml.etree.ElementTree import Element

from pipeline.errors import UserError
from pipeline.report.pictures.plot import Plot
from pipeline.report.pictures.scale import Point, range_of, thin
from pipeline.space.genotype import genotype_from_record
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
    epochs = [(entry["epoch"] + 1, _count_operations(entry)) for entry in entries if _count_operations(entry)]
    if len(epochs) < 2:
        return None
    names = sorted({name for _, counts in epochs for name in counts})
    at = {round(x) for x, _ in thin([(float(epoch), 0.0) for epoch, _ in epochs])}
    epochs = [(epoch, counts) for epoch, counts in epochs if epoch in at]
    plot = Plot(range_of([e for e, _ in epochs], margin=0.0), range_of([0.0, 1.0], margin=0.0), "epoch", "share")
    below = dict.fromkeys((epoch for epoch, _ in epochs), 0.0)
    for number, name in enumerate(names):
        above = {epoch: below[epoch] + counts[name] / counts.total() for epoch, counts in epochs}
        plot.area([*above.items()], [*below.items()], f"s{number % 10}", name)
        below = above
    return plot.svg("Share of each operation in the selected network, by epoch")


def _count_operations(entry: dict[str, Any]) -> Counter[str]:
    if not isinstance(entry.get("epoch"), int) or not isinstance(entry.get("genotype"), dict):
        return Counter()
    try:
        genotype = genotype_from_record(entry["genotype"])
    except UserError:
        return Counter()
    kinds = space_named(genotype.space).kinds
    return Counter(kept.operation for kind in kinds for kept in genotype.kept(kind))
