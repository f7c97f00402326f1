"""Pictures of a selection: the answer beside its budget, the rounds of the certificate, and several budgets."""

from collections.abc import Sequence
from typing import NamedTuple
from xml.etree.ElementTree import Element

from pipeline.artifacts.certificate import Iteration
from pipeline.report.markup import tag
from pipeline.report.pictures.plot import Plot
from pipeline.report.pictures.scale import Range, range_of, round_ticks, show_tick

_GAUGE_WIDTH, _GAUGE_HEIGHT = 460, 74


def draw_gauge(measured_ms: float, interval_ms: tuple[float, float], budget_ms: float) -> Element:
    """The measured latency as a bar with its interval, and the budget as a line."""
    shown = Range(0.0, 1.15 * max(budget_ms, interval_ms[1], measured_ms))

    def at(ms: float) -> float:
        return shown.place(ms, 8.0, _GAUGE_WIDTH - 8.0)

    colour = "s2" if measured_ms <= budget_ms else "s3"
    parts = [
        tag("rect", x=8, y=22, width=at(measured_ms) - 8, height=22, rx=2, class_=f"fill {colour}"),
        tag("line", x1=at(interval_ms[0]), x2=at(interval_ms[1]), y1=33, y2=33, class_="line strong"),
        *(tag("line", x1=at(ms), x2=at(ms), y1=27, y2=39, class_="line strong") for ms in interval_ms),
        tag("line", x1=at(budget_ms), x2=at(budget_ms), y1=14, y2=52, class_="dash limit"),
        tag("text", f"budget {budget_ms:g} ms", x=at(budget_ms), y=11, text_anchor="middle", class_="small"),
    ]
    for tick in round_ticks(shown):
        parts.append(tag("line", x1=at(tick), x2=at(tick), y1=52, y2=56, class_="axis"))
        parts.append(tag("text", show_tick(tick), x=at(tick), y=68, text_anchor="middle", class_="small"))
    title = tag("title", f"{measured_ms:.3g} ms measured, {budget_ms:g} ms allowed")
    return tag("svg", title, parts, viewBox=f"0 0 {_GAUGE_WIDTH} {_GAUGE_HEIGHT}", role="img", class_="plot")


def draw_rounds(iterations: Sequence[Iteration], budget_ms: float, percentile: int) -> Element | None:
    """Every network that was measured: predicted and measured, round after round, against the budget."""
    if not iterations:
        return None
    places = list(enumerate(iterations, start=1))
    predicted = [(float(x), done.predicted_ms) for x, done in places]
    measured = [(float(x), done, done.measured_ms.at(percentile)) for x, done in places if done.measured_ms is not None]
    ends = [ms * (1 + sign * (done.noise_floor or 0.0)) for _, done, ms in measured for sign in (-1, 1)]
    shown = range_of([*(ms for _, ms in predicted), *ends, budget_ms], margin=0.15)
    ticks = [x for x, _ in predicted] if len(places) <= 12 else None
    plot = Plot(Range(0.5, len(places) + 0.5), shown, "round", f"p{percentile}, ms", ticks)
    plot.level(budget_ms, "limit", f"budget, {budget_ms:g} ms")
    for x, done, ms in measured:
        floor = done.noise_floor or 0.0
        plot.interval(x, ms * (1 - floor), ms * (1 + floor), "s5")
    plot.points(predicted, "s4", "predicted", "diamond")
    fitting, over = ([(x, ms) for x, done, ms in measured if done.fits is fits] for fits in (True, False))
    if fitting:
        plot.points(fitting, "s5", "measured, fits")
    if over:
        plot.points(over, "s5", "measured, over budget", "cross")
    return plot.svg("Predicted and measured latency of every network that was tried")


class ParetoPoint(NamedTuple):
    """A budget with its certified network: measured latency, its noise, and the score as a share."""

    budget_ms: float
    measured_ms: float
    noise_floor: float
    score_share: float
    label: str


def draw_pareto(points: Sequence[ParetoPoint], percentile: int, argmax: tuple[float, float] | None) -> Element:
    """Score against measured latency, joined by steps; dashed lines are the budgets.

    `argmax` is (predicted latency, score) of the classic cell, which knows no budget.
    """
    ordered = sorted(points, key=lambda point: point.measured_ms)
    xs = [p.measured_ms for p in ordered] + [p.budget_ms for p in ordered] + ([argmax[0]] if argmax else [])
    ys = [p.score_share for p in ordered] + ([argmax[1]] if argmax else [])
    plot = Plot(
        range_of(xs, margin=0.12), range_of(ys, margin=0.2), f"measured p{percentile}, ms", "score (0 random, 1 best)"
    )
    for number, point in enumerate(ordered):
        plot.upright(point.budget_ms, "quiet", "" if number else "budgets")
    steps: list[tuple[float, float]] = []
    for point in ordered:
        steps += [(point.measured_ms, steps[-1][1])] if steps else []
        steps.append((point.measured_ms, point.score_share))
    plot.line(steps, "s0")
    for point in ordered:
        half = point.noise_floor * point.measured_ms
        plot.interval(point.score_share, point.measured_ms - half, point.measured_ms + half, "s0", across=True)
        plot.text((point.measured_ms, point.score_share), point.label, lift_px=8)
    plot.points([(p.measured_ms, p.score_share) for p in ordered], "s0", "certified, with its noise")
    if argmax is not None:
        plot.points([argmax], "s3", "classic argmax, whatever it costs (predicted)", "cross")
    return plot.svg("Score and latency of the network for each budget")
