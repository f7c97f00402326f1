"""Pictures of a search: the selected cells as graphs, and the expected latency on its way to the budget."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipeline.rundir import writing
from pipeline.space.cells import CellKind
from pipeline.space.genotype import Genotype
from pipeline.space.spaces import space_named

_COLOURS = {"skip_connect": "#888888", "none": "#dddddd"}
_CONVOLUTION, _POOL = "#1f77b4", "#2ca02c"


def draw_cells(genotype: Genotype, path: Path) -> None:
    """Each kind of cell: inputs on the left, nodes in order, the operation on every kept edge."""
    kinds = space_named(genotype.space).kinds
    figure = Figure(figsize=(9, 4.2 * len(kinds)), layout="constrained")
    for axes, kind in zip(figure.subplots(len(kinds), squeeze=False).flat, kinds, strict=True):
        _draw_cell(axes, kind, genotype)
    _save(figure, path)


def _draw_cell(axes: Axes, kind: CellKind, genotype: Genotype) -> None:
    places = [(0.0, (kind.inputs - 1) / 2 - index) for index in range(kind.inputs)]
    places += [(node + 1.0, 0.9 * (-1) ** node) for node in range(kind.nodes)]
    for kept in genotype.kept(kind):
        edge = kind.edges[kept.edge]
        (x0, y0), (x1, y1) = places[edge.source], places[kind.inputs + edge.node]
        colour = _COLOURS.get(kept.operation, _POOL if "pool" in kept.operation else _CONVOLUTION)
        arrow = {"arrowstyle": "-|>", "color": colour, "lw": 1.6, "shrinkA": 14, "shrinkB": 14}
        axes.annotate("", (x1, y1), (x0, y0), arrowprops=arrow)
        share = 0.35 + 0.1 * (edge.source % 3)  # labels of one node's edges would meet in the middle
        x, y = x0 + share * (x1 - x0), y0 + share * (y1 - y0)
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
        axes.text(x, y, kept.operation, ha="center", va="center", fontsize=8, color=colour, bbox=box)
    for index, (x, y) in enumerate(places):
        name = f"in {index}" if index < kind.inputs else str(index - kind.inputs)
        axes.text(x, y, name, ha="center", va="center", bbox={"boxstyle": "round", "facecolor": "#fff4d6"})
    axes.set(title=f"{kind.name} cell", xlim=(-0.4, kind.nodes + 0.4), ylim=(-1.4, 1.4))
    axes.axis("off")


def draw_expected_latency(history: Sequence[dict[str, Any]], limit_ms: float, path: Path) -> None:
    """Expected milliseconds and validation loss over the steps of the search, with the limit."""
    entries = [entry for entry in history if "expected_ms" in entry]
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    steps = [entry["step"] for entry in entries]
    axes.plot(steps, [entry["expected_ms"] for entry in entries], label="expected latency of the selected network")
    axes.axhline(limit_ms, color="black", linestyle="--", label="limit")
    axes.set(xlabel="weight steps", ylabel="expected latency, ms", ylim=(0, None))
    losses = axes.twinx()
    losses.plot(steps, [entry["validation_loss"] for entry in entries], color="#ff7f0e", alpha=0.6)
    losses.set(ylabel="validation loss (orange)", ylim=(0, None))
    axes.legend(loc="lower left")
    _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    with writing(path) as part:
        figure.savefig(part, format=path.suffix[1:], dpi=120)
