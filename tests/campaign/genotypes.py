"""Genotype files: for `inspect`, for `retrain --genotype`, and lists of them for `rank`."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from tests.campaign.case import Case, Must
from tests.campaign.damage import draw_damage
from tests.campaign.values import draw_value

_CELL = "|nor_conv_3x3~0|+|skip_connect~0|none~1|+|nor_conv_1x1~0|avg_pool_3x3~1|nor_conv_3x3~2|"
_OTHER = "|nor_conv_1x1~0|+|nor_conv_3x3~0|none~1|+|nor_conv_1x1~0|avg_pool_3x3~1|skip_connect~2|"
_PAIRS = [["sep_conv_3x3", 0], ["sep_conv_3x3", 1]] * 4
_REFUSED: Must = "be refused"
_SOUND: dict[str, Any] = {"space": "nasbench201", "cell": _CELL}
_DARTS: dict[str, Any] = {"space": "darts", "normal": _PAIRS, "reduce": _PAIRS}

_SKELETON: dict[str, Any] = {
    "space": "nasbench201", "cells": 3, "channels": 4, "resolution": 8, "classes": 10, "in_channels": 1, "stem": "auto",
}  # fmt: skip

_RECORDS: dict[str, Any] = {
    "no space": {"cell": _CELL},
    "an unknown space": {"space": "nowhere", "cell": _CELL},
    "a space that is a number": {"space": 3, "cell": _CELL},
    "a space of terminal codes": {"space": "\x1b[2J\u2028", "cell": _CELL},
    "no cell": {"space": "nasbench201"},
    "an empty cell": {"space": "nasbench201", "cell": ""},
    "a cell that is a list": {"space": "nasbench201", "cell": [1, 2]},
    "an unknown operation": {"space": "nasbench201", "cell": _CELL.replace("none", "magic")},
    "an edge too few": {"space": "nasbench201", "cell": _CELL.replace("none~1|", "")},
    "an edge backwards": {"space": "nasbench201", "cell": _CELL.replace("none~1", "none~9")},
    "an edge of letters": {"space": "nasbench201", "cell": _CELL.replace("none~1", "none~one")},
    "a long cell": {"space": "nasbench201", "cell": "|" * 900_000},
    "a missing kind": {"space": "darts", "normal": _PAIRS},
    "seven pairs": {**_DARTS, "normal": _PAIRS[:7]},
    "a pair of three": {**_DARTS, "normal": [["sep_conv_3x3", 0, 1], *_PAIRS[1:]]},
    "a source of text": {**_DARTS, "normal": [["sep_conv_3x3", "0"], *_PAIRS[1:]]},
    "a source of 10^30": {**_DARTS, "normal": [["sep_conv_3x3", 10**30], *_PAIRS[1:]]},
    "a source that is true": {**_DARTS, "normal": [["sep_conv_3x3", True], *_PAIRS[1:]]},
    "the same input twice": {**_DARTS, "normal": [["sep_conv_3x3", 0], ["sep_conv_3x3", 0], *_PAIRS[2:]]},
    "none in a cell": {**_DARTS, "normal": [["none", 0], *_PAIRS[1:]]},
    "a number for a pair": {**_DARTS, "normal": 7},
    "a key more": {**_SOUND, "extra": 1},
    "a skeleton of text": {**_SOUND, "skeleton": "big"},
    "a skeleton of no cells": {**_SOUND, "skeleton": {**_SKELETON, "cells": 0}},
    "a skeleton of 10^30 channels": {**_SOUND, "skeleton": {**_SKELETON, "channels": 10**30}},
    "a skeleton of half a channel": {**_SOUND, "skeleton": {**_SKELETON, "channels": 4.5}},
    "a skeleton of another space": {**_SOUND, "skeleton": {**_SKELETON, "space": "darts"}},
    "a skeleton that lacks a part": {**_SOUND, "skeleton": {k: v for k, v in _SKELETON.items() if k != "stem"}},
    "a skeleton of nothing": {**_SOUND, "skeleton": {}},
    "a list": [_SOUND],
    "null": None,
}


def draw(random: Random) -> Case:
    """A file that one of three commands reads."""
    kind = random.choice(["inspect", "retrain", "rank", "spoiled"])
    if kind == "spoiled":
        name, damage = draw_damage(random, is_json=True)
        return Case("genotypes", f"sound, {name}", ("inspect", "--genotype", "g.json"), partial(_spoil, damage=damage))
    if kind == "rank":
        return _draw_list(random)
    name = random.choice([*_RECORDS, "drawn"])
    record = draw_value(random) if name == "drawn" else _RECORDS[name]
    must: Must = "end well" if name == "a key more" else _REFUSED
    arguments = {"inspect": ("inspect", "--genotype", "g.json"), "retrain": ("retrain", "--genotype", "g.json")}[kind]
    return Case("genotypes", name, arguments, partial(_write, text=_json(record)), must)


def _draw_list(random: Random) -> Case:
    lines = [_json(_SOUND), _json({"space": "nasbench201", "cell": _OTHER})]
    name, bad = random.choice(
        [("one line", None), ("no line", None), ("another space", _json(_DARTS)), ("half a line", '{"space": "nas')]
        + [(name, _json(record)) for name, record in _RECORDS.items() if name not in ("a key more",)]
    )
    if name == "no line":
        lines = []
    elif name == "one line":
        lines = lines[:1]
    else:
        lines.insert(random.randrange(3), str(bad))
    return Case("genotypes", f"list, {name}", _rank(), partial(_write, text="\n".join(lines)), _REFUSED)


def _rank() -> tuple[str, ...]:
    return ("rank", "--genotypes", "g.json")


def _json(record: Any) -> str:
    return json.dumps(record)


def _write(project: Path, text: str) -> None:
    (project / "g.json").write_text(text, encoding="utf-8", errors="surrogatepass")


def _spoil(project: Path, damage: Callable[[Path], None]) -> None:
    _write(project, _json(_SOUND))
    damage(project / "g.json")
