"""A plot as SVG: axes with round ticks, marks of several series, and a legend below, never on the curves."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal
from xml.etree.ElementTree import Element

from pipeline.report.markup import tag
from pipeline.report.pictures.scale import Point, Range, round_ticks, show_tick, thin
from pipeline.space.cells import Space

WIDTH, HEIGHT = 460, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 10, 40
_LEGEND_ROW, _SWATCH = 17, 18
_CHARACTER_PX = 6.3  # of the 11 px text of legends and ticks, on average

Mark = Literal["line", "dash", "point", "diamond", "cross", "area"]


@dataclass
class Plot:
    """What is drawn so far; colours are those of the classes s0, s1 … of the page's style."""

    x: Range
    y: Range
    x_label: str
    y_label: str
    x_ticks: Sequence[float] | None = None
    height: int = HEIGHT
    _marks: list[Element] = field(default_factory=list)
    _legend: list[tuple[str, Mark, str]] = field(default_factory=list)

    def at(self, point: Point) -> Point:
        """A place in pixels."""
        x, y = point
        return self.x.place(x, _LEFT, WIDTH - _RIGHT), self.y.place(y, self.height - _BOTTOM, _TOP)

    def line(self, points: Sequence[Point], colour: str, label: str = "", mark: Mark = "line") -> None:
        """A curve, thinned to what can be seen."""
        drawn = thin(points)
        if len(drawn) == 1:
            self.points(drawn, colour)
        places = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(self.at, drawn))
        self._marks.append(tag("polyline", points=places, class_=f"{mark} {colour}"))
        self._name(label, mark, colour)

    def area(self, upper: Sequence[Point], lower: Sequence[Point], colour: str, label: str = "") -> None:
        """What lies between two curves over the same places."""
        places = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(self.at, [*upper, *reversed(lower)]))
        self._marks.append(tag("polygon", points=places, class_=f"area {colour}"))
        self._name(label, "area", colour)

    def points(self, points: Iterable[Point], colour: str, label: str = "", mark: Mark = "point") -> None:
        for point in points:
            self._marks.append(_symbol(*self.at(point), mark, colour))
        self._name(label, mark, colour)

    def interval(self, at: float, low: float, high: float, colour: str, across: bool = False) -> None:
        """A whisker from `low` to `high`: upright at x = `at`, or `across` at y = `at`."""
        ends = ((low, at), (high, at)) if across else ((at, low), (at, high))
        (x1, y1), (x2, y2) = map(self.at, ends)
        self._marks.append(tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=f"line {colour}"))

    def level(self, y: float, colour: str, label: str = "") -> None:
        """A dashed line across."""
        self.line([(self.x.low, y), (self.x.high, y)], colour, label, "dash")

    def upright(self, x: float, colour: str, label: str = "") -> None:
        """A dashed line from top to bottom."""
        self.line([(x, self.y.low), (x, self.y.high)], colour, label, "dash")

    def bar(self, left: float, right: float, top: float, colour: str, hint: str = "") -> None:
        """A bar that stands on the axis."""
        (x1, y1), (x2, y2) = self.at((left, top)), self.at((right, max(self.y.low, 0.0)))
        title = tag("title", hint) if hint else None
        bar = tag("rect", title, x=x1, y=y1, width=max(x2 - x1, 0.5), height=max(y2 - y1, 0.0), class_=f"fill {colour}")
        self._marks.append(bar)

    def text(self, point: Point, text: str, anchor: str = "middle", lift_px: float = 5.0) -> None:
        x, y = self.at(point)
        self._marks.append(tag("text", text, x=x, y=y - lift_px, text_anchor=anchor, class_="small"))

    def name(self, label: str, colour: str, mark: Mark = "area") -> None:
        """An entry of the legend for marks that were drawn one by one."""
        self._name(label, mark, colour)

    def _name(self, label: str, mark: Mark, colour: str) -> None:
        if label:
            self._legend.append((label, mark, colour))

    def svg(self, title: str) -> Element:
        """The picture; `title` is what a screen reader says."""
        legend = list(self._draw_legend())
        bottom = self.height + (max((y for y, _ in legend), default=0) + _LEGEND_ROW if legend else 0)
        return tag(
            "svg",
            tag("title", title),
            list(self._axes()),
            self._marks,
            [part for _, part in legend],
            viewBox=f"0 0 {WIDTH} {bottom:g}",
            role="img",
            class_="plot",
        )

    def _axes(self) -> Iterable[Element]:
        left, right, top, bottom = _LEFT, WIDTH - _RIGHT, _TOP, self.height - _BOTTOM
        for value in round_ticks(self.y):
            y = self.at((self.x.low, value))[1]
            yield tag("line", x1=left, y1=y, x2=right, y2=y, class_="grid")
            yield tag("text", show_tick(value), x=left - 6, y=y + 4, text_anchor="end", class_="small")
        for value in round_ticks(self.x) if self.x_ticks is None else self.x_ticks:
            x = self.at((value, self.y.low))[0]
            yield tag("line", x1=x, y1=bottom, x2=x, y2=bottom + 4, class_="axis")
            yield tag("text", show_tick(value), x=x, y=bottom + 16, text_anchor="middle", class_="small")
        yield tag("line", x1=left, y1=bottom, x2=right, y2=bottom, class_="axis")
        yield tag("text", self.x_label, x=(left + right) / 2, y=bottom + 32, text_anchor="middle")
        middle = (top + bottom) / 2
        turned = f"rotate(-90 12 {middle:g})"
        yield tag("text", self.y_label, x=12, y=middle, text_anchor="middle", transform=turned)

    def _draw_legend(self) -> Iterable[tuple[float, Element]]:
        """Entries in rows below the plot, each as wide as its text needs."""
        x, y = float(_LEFT), 6.0
        for label, mark, colour in dict.fromkeys(self._legend):
            width = _SWATCH + 14 + _CHARACTER_PX * len(label)
            if x > _LEFT and x + width > WIDTH:
                x, y = float(_LEFT), y + _LEGEND_ROW
            at = self.height + y
            yield y, _swatch(x, at, mark, colour)
            yield y, tag("text", label, x=x + _SWATCH + 4, y=at + 4, class_="small")
            x += width


def _swatch(x: float, y: float, mark: Mark, colour: str) -> Element:
    if mark in ("line", "dash"):
        return tag("line", x1=x, y1=y, x2=x + _SWATCH, y2=y, class_=f"{mark} {colour}")
    if mark == "area":
        return tag("rect", x=x + 3, y=y - 5, width=_SWATCH - 6, height=10, class_=f"fill {colour}")
    return _symbol(x + _SWATCH / 2, y, mark, colour)


def _symbol(x: float, y: float, mark: Mark, colour: str) -> Element:
    if mark == "point":
        return tag("circle", cx=x, cy=y, r=3.5, class_=f"fill {colour}")
    shapes = {
        "diamond": f"M{x:.1f} {y - 5:.1f}l5 5l-5 5l-5 -5z",
        "cross": f"M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8",
    }
    return tag("path", d=shapes[mark], class_=f"{'line' if mark == 'cross' else 'fill'} {colour}")


def operation_colours(space: Space) -> dict[str, str]:
    """The class of each operation of a space, the same in every picture."""
    names = dict.fromkeys(operation for kind in space.kinds for operation in kind.operations)
    return {name: f"s{number % 10}" for number, name in enumerate(names)}
