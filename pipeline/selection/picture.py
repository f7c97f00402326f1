"""The Pareto picture of several budgets: score against measured latency."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pipeline.rundir import writing


class Point(NamedTuple):
    """A certified network on the picture."""

    budget_ms: float
    measured_ms: float
    score: float
    label: str


class Reference(NamedTuple):
    """The classic cell, which knows no budget."""

    predicted_ms: float
    score: float


def draw_pareto(path: Path, points: Sequence[Point], argmax: Reference, percentile: int, noise_floor: float) -> None:
    """One point per certified budget, joined by steps; a thin line marks each budget."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    ordered = sorted(points, key=lambda point: point.measured_ms)
    ms, scores = [point.measured_ms for point in ordered], [point.score for point in ordered]
    for point in ordered:
        axes.axvline(point.budget_ms, color="0.75", linewidth=0.8, linestyle="--", zorder=0)
    axes.step(ms, scores, where="post", color="C0", linewidth=1.2)
    axes.errorbar(ms, scores, xerr=[noise_floor * x for x in ms], fmt="o", color="C0", label="certified")
    axes.plot(argmax.predicted_ms, argmax.score, "x", color="C3", label="argmax, whatever it costs (predicted)")
    for point in ordered:
        axes.annotate(
            point.label, (point.measured_ms, point.score), (6, -11), textcoords="offset points", fontsize="small"
        )
    axes.set_xlabel(f"measured latency, p{percentile} (ms); dashed: budgets")
    axes.set_ylabel("score of the cell (log-odds)")
    axes.legend(loc="lower right", fontsize="small")
    axes.margins(x=0.12, y=0.12)
    with writing(path) as part:
        figure.savefig(part, format="png", dpi=120)
