"""The deployed network drawn: a strip of all its parts, and each kind of cell with a lane per kept edge."""

import re
from collections.abc import Iterator
from typing import NamedTuple
from xml.etree.ElementTree import Element

from pipeline.report.anatomy import Anatomy, Block, KindView, Times
from pipeline.report.markup import tag

_COLUMN, _STRIP_TOP, _BLOCK_PX, _BARS_PX = 44, 16, 66, 110
_LIFELINE, _LANE, _HEAD = 92, 34, 30
_SHARE_PX, _SHARE_TEXT = 130, 60
_INVERTED = re.compile(r"mb(?P<expansion>\d+)_k(?P<kernel>\d+)(?P<excited>_se)?")
_LARGEST_EXPANSION = 6


class _Look(NamedTuple):
    """How a block is drawn: its colour, its height as a share, and the words in it."""

    colour: str
    height: float
    words: tuple[str, ...]


def _look_at(block: Block) -> _Look:
    inverted = _INVERTED.fullmatch(block.operation)
    if inverted is not None:
        colours = {"3": "s0", "5": "s1", "7": "s2"}
        words = (f"k{inverted['kernel']}", f"×{inverted['expansion']}", *(["se"] if inverted["excited"] else []))
        height = 0.45 + 0.55 * int(inverted["expansion"]) / _LARGEST_EXPANSION  # three words fit into the lowest
        return _Look(colours.get(inverted["kernel"], "s3"), height, words)
    if block.operation in ("skip", "skip_connect"):
        return _Look("quiet", 0.14, ())
    if not block.is_choice:
        return _Look("quiet", 0.5, ())
    return _Look("s1" if block.operation.startswith("reduce") else "s0", 0.8, ())


def draw_strip(anatomy: Anatomy) -> Element:
    """The parts in order: what they are, their resolution and width, and the milliseconds of each below."""
    blocks = anatomy.blocks
    most = max((ms for block in blocks for ms in block.times if ms is not None), default=0.0) or 1.0
    base = _STRIP_TOP + _BLOCK_PX
    bottom = base + 64 + _BARS_PX
    parts: list[Element] = []
    for number, block in enumerate(blocks):
        parts += _draw_block(block, 8 + number * _COLUMN, base)
        parts += _draw_times(block.times, 8 + number * _COLUMN, bottom, most)
    width = max(16 + _COLUMN * len(blocks), 440)
    legend = tag("g", _legend(anatomy.total, bottom + 34))
    title = "The network from input to output"
    return tag("svg", tag("title", title), parts, legend, viewBox=f"0 0 {width} {bottom + 44}", **_fixed_width(width))


def _fixed_width(width: int) -> dict[str, str]:
    """Drawn at its own size, in a box that scrolls where it is too wide."""
    return {"class_": "drawing", "role": "img", "style": f"min-width:{width}px;max-width:{int(1.4 * width)}px"}


def _draw_block(block: Block, x: float, base: float) -> Iterator[Element]:
    look, middle = _look_at(block), x + _COLUMN / 2 - 2
    height = look.height * _BLOCK_PX
    hint = tag("title", f"{block.operation}: {block.channels} channels, {block.resolution} px")
    yield tag("rect", hint, x=x, y=base - height, width=_COLUMN - 4, height=height, rx=3, class_=f"fill {look.colour}")
    for line, word in enumerate(look.words):
        y = base - height / 2 + 4 + 12 * (line - (len(look.words) - 1) / 2)
        yield tag("text", word, x=middle, y=y, text_anchor="middle", class_="small inside")
    if not look.words:
        yield tag("text", _short(block.operation), x=middle, y=base + 13, text_anchor="middle", class_="tiny")
    yield tag("text", f"{block.channels} ch", x=middle, y=base + 27, text_anchor="middle", class_="tiny")
    yield tag("text", f"{block.resolution} px", x=middle, y=base + 40, text_anchor="middle", class_="tiny")


def _short(operation: str) -> str:
    names = {"conv_3x3_relu": "stem", "conv_1x1_relu": "conv 1×1", "residual_reduction": "reduce", "head_norm": "head"}
    return names.get(operation, operation.removesuffix("_connect").replace("_", " "))[:9]


def _draw_times(times: Times, x: float, bottom: float, most: float) -> Iterator[Element]:
    for offset, ms, colour in ((3, times.predicted_ms, "s4"), (21, times.measured_ms, "s5")):
        if ms is None:
            continue
        height = max(ms, 0.0) / most * (_BARS_PX - 14)
        hint = tag("title", f"{ms:.4f} ms")
        yield tag("rect", hint, x=x + offset, y=bottom - height, width=16, height=height, class_=f"fill {colour}")
    shown = [ms for ms in reversed(times) if ms is not None]
    if shown:
        text = f"{1000 * shown[0]:.0f}" if shown[0] < 1 else f"{shown[0]:.2f}"
        yield tag("text", text, x=x + _COLUMN / 2 - 2, y=bottom + 12, text_anchor="middle", class_="tiny")


def _legend(total: Times, y: float) -> Iterator[Element]:
    x = 8.0
    for colour, name, ms in (("s4", "predicted", total.predicted_ms), ("s5", "measured", total.measured_ms)):
        if ms is not None:
            yield tag("rect", x=x, y=y - 9, width=12, height=10, class_=f"fill {colour}")
            text = f"{name}, {ms:#.3g} ms in all"
            yield tag("text", text, x=x + 16, y=y, class_="small")
            x += 34 + 6.3 * len(text)


def draw_cell(view: KindView, total: Times) -> Element:
    """A kind of cell: inputs and nodes are upright lines, every kept edge a lane of its own, so that no labels meet."""
    kind = view.kind
    columns = [f"input {i + 1}" if kind.inputs > 1 else "input" for i in range(kind.inputs)]
    columns += [f"node {i + 1}" for i in range(kind.nodes)]
    lanes_end = _LIFELINE * len(columns)
    height = _HEAD + _LANE * len(view.lanes) + 12
    most = max((share for lane in view.lanes for share in _shares(lane.times, total) if share), default=1.0)
    parts: list[Element] = []
    for number, name in enumerate(columns):
        x = _LIFELINE * (number + 0.5)
        parts.append(tag("line", x1=x, y1=_HEAD - 6, x2=x, y2=height - 4, class_="grid"))
        parts.append(tag("rect", x=x - 32, y=4, width=64, height=20, rx=6, class_="node"))
        parts.append(tag("text", name, x=x, y=18, text_anchor="middle", class_="small"))
    for row, lane in enumerate(view.lanes):
        y = _HEAD + _LANE * (row + 0.75)
        x1, x2 = _LIFELINE * (lane.source + 0.5), _LIFELINE * (kind.inputs + lane.node + 0.5)
        colour = _edge_colour(lane.operation)
        parts.append(tag("line", x1=x1, y1=y, x2=x2 - 7, y2=y, class_=f"edge {colour}"))
        parts.append(tag("path", d=f"M{x2:g} {y:g}l-9 -4.5v9z", class_=f"fill {colour}"))
        parts.append(tag("circle", cx=x1, cy=y, r=3, class_=f"fill {colour}"))
        parts.append(tag("text", lane.operation, x=x1 + 8, y=y - 6, class_="small halo"))
        parts += _draw_share(lane.times, total, most, lanes_end + 10, y)
    width = lanes_end + _SHARE_PX + _SHARE_TEXT
    title = f"{kind.name}: {view.cells} in the network"
    return tag("svg", tag("title", title), parts, viewBox=f"0 0 {width} {height:g}", **_fixed_width(width))


def _shares(times: Times, total: Times) -> list[float | None]:
    """What the part takes of the whole, by the table and by the profiler."""
    pairs = zip(times, total, strict=True)
    return [None if ms is None or not whole else max(ms / whole, 0.0) for ms, whole in pairs]


def _draw_share(times: Times, total: Times, most: float, x: float, y: float) -> Iterator[Element]:
    """Bars of an edge's share of the whole network's milliseconds; the longest is `most`."""
    for offset, share, colour in zip((-9, 0), _shares(times, total), ("s4", "s5"), strict=True):
        if share is not None:
            width = max(share / most * _SHARE_PX, 0.5)
            yield tag("rect", x=x, y=y + offset, width=width, height=7, class_=f"fill {colour}")
            yield tag("text", f"{share:.1%}", x=x + width + 5, y=y + offset + 7, class_="tiny")


def _edge_colour(operation: str) -> str:
    if operation in ("none", "skip_connect"):
        return "quiet"
    return "s2" if "pool" in operation else "s1" if operation.startswith("dil") else "s0"
