"""The Pareto picture of several budgets: score against measured latency."""

from collections.abc import Sequence
from pathlib import Path

from pipeline.rundir import writing
from pipeline.selection.budgets import Outcome
from pipeline.selection.candidate import Candidate


def draw_pareto(path: Path, outcomes: Sequence[Outcome], argmax: Candidate) -> None:
    """One point per certified budget, joined by steps; a thin line marks each budget.

    `argmax` is the classic cell, which knows no budget.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    percentile = outcomes[0].demands.percentile
    noise_floor = max(outcome.chosen.timing.noise_floor for outcome in outcomes)
    ordered = sorted(outcomes, key=lambda outcome: outcome.chosen.timing.at(percentile))
    ms = [outcome.chosen.timing.at(percentile) for outcome in ordered]
    scores = [outcome.chosen.score for outcome in ordered]
    for outcome in ordered:
        axes.axvline(outcome.demands.budget_ms, color="0.75", linewidth=0.8, linestyle="--", zorder=0)
    axes.step(ms, scores, where="post", color="C0", linewidth=1.2)
    axes.errorbar(ms, scores, xerr=[noise_floor * x for x in ms], fmt="o", color="C0", label="certified")
    axes.plot(argmax.predicted.ms, argmax.score, "x", color="C3", label="argmax, whatever it costs (predicted)")
    for outcome, x, y in zip(ordered, ms, scores, strict=True):
        skeleton = outcome.chosen.target.skeleton
        label = f"{outcome.demands.budget_ms:g} ms: {skeleton.cells} × {skeleton.channels}"
        axes.annotate(label, (x, y), (6, -11), textcoords="offset points", fontsize="small")
    word = "predicted" if outcomes[0].chosen.timing.is_predicted else "measured"
    axes.set_xlabel(f"{word} latency, p{percentile} (ms); dashed: budgets")
    axes.set_ylabel("score of the cell (log-odds)")
    axes.legend(loc="lower right", fontsize="small")
    axes.margins(x=0.12, y=0.12)
    with writing(path) as part:
        figure.savefig(part, format="png", dpi=120)
