"""A picture of a comparison: the accuracy of every network, seed by seed."""

from xml.etree.ElementTree import Element

from pipeline.artifacts.comparison import Comparison
from pipeline.report.markup import tag
from pipeline.report.pictures.scale import range_of, round_ticks, show_tick

_LEFT, _ROW, _WIDTH = 140, 30, 460


def draw_rivals(found: Comparison) -> Element:
    """A row per network: a point per seed, an upright line at the mean; the certified network comes first."""
    shown = range_of([100 * accuracy for one in found.entrants for accuracy in one.accuracies], margin=0.12)
    bottom = 14 + _ROW * len(found.entrants)

    def at(share: float) -> float:
        return shown.place(100 * share, _LEFT + 10.0, _WIDTH - 16.0)

    parts: list[Element] = []
    for tick in round_ticks(shown):
        x = at(tick / 100)
        parts.append(tag("line", x1=x, x2=x, y1=6, y2=bottom, class_="grid"))
        parts.append(tag("text", show_tick(tick), x=x, y=bottom + 15, text_anchor="middle", class_="small"))
    for row, one in enumerate(found.entrants):
        y, colour = 14 + _ROW * (row + 0.5), "s5" if one.kind == "certified" else "s0" if one.kind == "rival" else "s8"
        name = one.name if len(one.name) <= 22 else f"{one.name[:21]}…"
        mean = at(sum(one.accuracies) / len(one.accuracies))
        parts.append(tag("text", name, x=_LEFT, y=y + 4, text_anchor="end", class_="small data"))
        parts.append(tag("line", x1=mean, x2=mean, y1=y - 10, y2=y + 10, class_=f"edge {colour}"))
        for share in one.accuracies:
            hint = tag("title", f"{share:.2%}")
            parts.append(tag("circle", hint, cx=at(share), cy=y, r=4, class_=f"area {colour}"))
    middle = (_LEFT + _WIDTH) / 2
    parts.append(tag("text", "test accuracy, %", x=middle, y=bottom + 32, text_anchor="middle"))
    title = tag("title", "Accuracy of every network at the same latency")
    return tag("svg", title, parts, viewBox=f"0 0 {_WIDTH} {bottom + 40}", role="img", class_="plot")
