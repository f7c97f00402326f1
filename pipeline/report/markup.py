"""HTML and SVG as trees: whatever is put into one is text, so that no class name or setting can become markup."""

import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote
from xml.etree.ElementTree import Element, tostring

Child = Element | str | int | float | None | Iterable["Child"]

_COMMAND = re.compile("`([^`]+)`")
_PROJECT = "../../"  # as seen from a page
# control characters and lone surrogates (file names that are not UTF-8), which no page can hold
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f\ud800-\udfff\ufffe\uffff]")


def tag(name: str, /, *children: Child, **attributes: Any) -> Element:
    """An element. `class_` is class and `stroke_width` is stroke-width; an attribute that is None is left out."""
    element = Element(name)
    for key, value in attributes.items():
        if value is not None:
            element.set(key.rstrip("_").replace("_", "-"), _show(value))
    _append(element, children)
    return element


def _append(element: Element, child: Child) -> None:
    if child is None:
        return
    if isinstance(child, Element):
        element.append(child)
    elif isinstance(child, str | int | float):
        if len(element):
            element[-1].tail = (element[-1].tail or "") + _show(child)
        else:
            element.text = (element.text or "") + _show(child)
    else:
        for one in child:
            _append(element, one)


def _show(value: object) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return _UNPRINTABLE.sub("�", text)


def with_code(text: str) -> list[Child]:
    """A text as the console says it, with commands between backticks, as the page shows it."""
    return [tag("code", part) if place % 2 else part for place, part in enumerate(_COMMAND.split(text))]


def link(path: PurePosixPath | str, text: str = "") -> Element:
    """A link to a file of the project, from two folders below it (runs/NAME and exports/NAME alike)."""
    return tag("a", text or str(path), href=_address(path))


def _address(path: PurePosixPath | str) -> str:
    return f"{_PROJECT}{quote(str(path), safe='/')}"


def keep_links_within(root: Element, folder: PurePosixPath) -> None:
    """Links to files of `folder` lead there from within it; of all others in the project the name alone stays."""
    inside = _address(f"{folder}/")
    for anchor in root.iter("a"):
        target = anchor.get("href", "")
        if target.startswith(inside):
            anchor.set("href", target.removeprefix(inside))
            anchor.text = (anchor.text or "").removeprefix(f"{folder}/")
        elif target.startswith(_PROJECT):
            anchor.tag = "span"
            del anchor.attrib["href"]


def render_html(root: Element) -> str:
    """A whole page."""
    return f"<!DOCTYPE html>\n{tostring(root, encoding='unicode', method='html')}\n"


def render_svg(root: Element, style: str) -> str:
    """A picture as a file of its own, with the colours that the page gives it."""
    root = tag("svg", tag("style", style), list(root), **{**root.attrib, "xmlns": "http://www.w3.org/2000/svg"})
    return tostring(root, encoding="unicode", method="xml") + "\n"
