"""Pictures of a training: its curves, what the network confuses, and how far its confidence can be believed."""

import math
from collections.abc import Sequence
from typing import Any
from xml.etree.ElementTree import Element

from pipeline.artifacts.metrics import ConfidenceBin, Metrics
from pipeline.report.markup import tag
from pipeline.report.pictures.plot import Plot
from pipeline.report.pictures.scale import Point, Range, range_of
from pipeline.report.pictures.search import curve

FEWEST_IN_BIN = 10  # fewer answers say nothing about how often such answers are right
MOST_CLASSES = 40  # whose names and squares fit
_SQUARE, _LETTER_PX = 26, 6.5
_LONGEST_LABEL = 16


def draw_training(
    history: Sequence[dict[str, Any]], names: dict[str, str], y_label: str, deployed_epoch: int | None
) -> Element | None:
    """Figures that can be compared, over epochs; a dashed line marks the epoch whose weights are deployed."""
    curves: dict[str, list[Point]] = {
        label: curve([entry for entry in history if "train_top1" in entry], name, "epoch")
        for name, label in names.items()
    }
    curves = {label: points for label, points in curves.items() if points}
    if not curves:
        return None
    values, epochs = ([point[i] for points in curves.values() for point in points] for i in (1, 0))
    shown = range_of(values, from_zero=y_label != "accuracy")
    if y_label == "accuracy":
        shown = Range(max(shown.low, 0.0), min(shown.high, 1.0))
    plot = Plot(range_of(epochs, margin=0.0), shown, "epoch", y_label)
    for number, (label, points) in enumerate(curves.items()):
        plot.line(points, f"s{number}", label)
    if deployed_epoch is not None:
        plot.upright(float(deployed_epoch), "limit", f"deployed: epoch {deployed_epoch}")
    return plot.svg(f"{y_label} over epochs")


def draw_calibration(bins: Sequence[ConfidenceBin]) -> Element:
    """Accuracy against confidence, with the number of answers in every bin; bins with too few have no point."""
    known = [part for part in bins if part.images >= FEWEST_IN_BIN]
    plot = Plot(Range(0.0, 1.0), Range(0.0, 1.12), "confidence", "share of right answers")
    most = max((part.images for part in bins), default=1)
    width = 1 / 15
    for part in bins:
        left = int(min(part.confidence, 0.9999) / width) * width
        height = 0.3 * part.images / most
        plot.bar(left + 0.004, left + width - 0.004, height, "quiet", f"{part.images} answers")
        plot.text((left + width / 2, height), str(part.images), lift_px=3)
    plot.name("answers in the bin (count above)", "quiet")
    plot.line([(0.0, 0.0), (1.0, 1.0)], "limit", "as sure as right", "dash")
    points = [(part.confidence, part.accuracy) for part in known]
    if points:
        plot.line(points, "s0", f"test images, bins of {FEWEST_IN_BIN} and more")
        plot.points(points, "s0")
    return plot.svg("Accuracy by confidence")


def draw_confusion(metrics: Metrics) -> Element | None:
    """Counts of every class taken for every other, shaded by share of the true class; None with too many classes."""
    labels, rows = [row.label for row in metrics.per_class], metrics.confusion
    if not 0 < len(rows) <= MOST_CLASSES or len(labels) != len(rows):
        return None
    words = 18 + _LETTER_PX * min(max(map(len, labels)), _LONGEST_LABEL)
    left, top, slant = words, math.ceil(0.87 * words), words // 2  # above the columns they stand at 60°
    parts: list[Element] = []
    for i, row in enumerate(rows):
        y = top + i * _SQUARE
        parts.append(_label(labels[i], left - 6, y + 17, anchor="end"))
        turned = f"rotate(-60 {left + i * _SQUARE + 14} {top - 6})"
        parts.append(_label(labels[i], left + i * _SQUARE + 14, top - 6, transform=turned))
        for j, count in enumerate(row):
            parts += _square(left + j * _SQUARE, y, count, count / max(sum(row), 1), labels[i], labels[j])
    width, height = left + _SQUARE * len(rows) + slant, top + _SQUARE * len(rows) + 8
    style = f"min-width:{min(width, 340):.0f}px;max-width:{int(1.15 * width)}px"
    title = tag("title", "Confusion matrix: rows are the truth, columns the answers")
    return tag("svg", title, parts, viewBox=f"0 0 {width:g} {height:g}", role="img", class_="drawing", style=style)


def _label(text: str, x: float, y: float, anchor: str = "start", transform: str | None = None) -> Element:
    short = text if len(text) <= _LONGEST_LABEL else f"{text[: _LONGEST_LABEL - 1]}…"
    return tag(
        "text", tag("title", text), short, x=x, y=y, text_anchor=anchor, transform=transform, class_="small data"
    )


def _square(x: float, y: float, count: int, share: float, truth: str, answer: str) -> list[Element]:
    hint = tag("title", f"{truth} taken for {answer}: {count} ({share:.1%})")
    colour = "s0" if truth == answer else "s3"
    square = tag("rect", hint, x=x, y=y, width=_SQUARE - 1, height=_SQUARE - 1, class_=f"fill {colour}")
    square.set("fill-opacity", f"{0.06 + 0.94 * share if count else 0.04:.3f}")
    if not count:
        return [square]
    words = "small inside" if share > 0.5 else "small"
    middle = x + _SQUARE / 2
    return [square, tag("text", count, x=middle, y=y + 17, text_anchor="middle", class_=words)]
