"""Parts that every section of the page is made of: headings, figures with their source, facts, sortable tables."""

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import NamedTuple
from xml.etree.ElementTree import Element

from pipeline.report.markup import Child, link, tag

_BRIEF = 32  # characters that stay on one line


class Cell(NamedTuple):
    """A cell of a table that shows one thing and sorts by another."""

    shown: Child
    value: float | None


class Fact(NamedTuple):
    """A figure with its name, and a few words on it."""

    name: str
    figure: str
    words: Child = None


def section(anchor: str, title: str, *children: Child) -> Element:
    return tag("section", tag("h2", title), children, id=anchor)


def sources(*paths: PurePosixPath | None) -> list[Child]:
    """ "From a, b." with links."""
    known = [path for path in paths if path is not None]
    parts: list[Child] = []
    for path in known:
        parts += [", " if parts else " From ", link(path)]
    return [*parts, "."] if parts else []


def figure(picture: Element | None, caption: str, *paths: PurePosixPath | None) -> Element | None:
    """A picture with its caption and the files it comes from; nothing where there is no picture."""
    if picture is None:
        return None
    return tag("figure", tag("div", picture, class_="scroll"), tag("figcaption", caption, sources(*paths)))


def figures(*parts: Element | None) -> Element | None:
    """Figures side by side where there is room."""
    known = [part for part in parts if part is not None]
    return tag("div", known, class_="figures") if known else None


def facts(rows: Sequence[Fact]) -> Element:
    return tag(
        "dl", [tag("div", tag("dt", row.name), tag("dd", row.figure, _words(row))) for row in rows], class_="facts"
    )


def _words(row: Fact) -> Element | None:
    return None if row.words is None else tag("small", row.words)


def table(
    headings: Sequence[str],
    rows: Sequence[Sequence[Child | Cell]],
    caption: Child = None,
    chosen: int | None = None,
    numeric: Sequence[int] = (),
) -> Element:
    """A table that sorts by any column; `chosen` is the row that stands out, `numeric` columns align right."""
    head = [
        tag("th", tag("button", heading, type="button"), scope="col", class_="number" if i in numeric else None)
        for i, heading in enumerate(headings)
    ]
    body = [
        tag("tr", [_cell(cell, i in numeric) for i, cell in enumerate(row)], class_="chosen" if n == chosen else None)
        for n, row in enumerate(rows)
    ]
    whole = tag(
        "table",
        tag("caption", tag("span", caption)) if caption else None,
        tag("thead", tag("tr", head)),
        tag("tbody", body),
        class_="sortable",
    )
    return tag("div", whole, class_="scroll")


def _cell(cell: Child | Cell, numeric: bool) -> Element:
    shown = cell.shown if isinstance(cell, Cell) else cell
    brief = isinstance(shown, str) and len(shown) <= _BRIEF
    style = "number" if numeric else "brief" if brief else None
    if isinstance(cell, Cell):
        value = None if cell.value is None else repr(float(cell.value))
        return tag("td", cell.shown, class_=style, data_value=value, dir=None if numeric else "auto")
    return tag("td", cell, class_=style, dir=None if numeric else "auto")


def folded(title: str, *children: Child) -> Element:
    """What only some readers want to see."""
    return tag("details", tag("summary", title), children)


def milliseconds(ms: float | None) -> Cell:
    return Cell("–" if ms is None else f"{ms:.3g}", ms)


def whole(number: int) -> Cell:
    return Cell(f"{number:,}", float(number))


def percent(share: float | None, digits: int = 1) -> Cell:
    return Cell("–" if share is None else f"{share:.{digits}%}", share)
