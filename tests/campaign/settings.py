"""pipeline.toml: values of a wrong type or that cannot work, and files that are no TOML."""

import math
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Literal, get_args, get_origin

from pipeline.config import Config
from tests.campaign.case import Case, Must
from tests.campaign.project import change_setting
from tests.campaign.values import draw_value, toml

# what cannot work whoever writes it; a setting here is refused by every command, before anything is done
_IMPOSSIBLE = {
    "data.resolution": ("0", "1", "-8", "5000", "1000000"),
    "compute.threads": ("-1", "100000", "9223372036854775807"),
    "compute.seed": ("-1", "18446744073709551616"),
    "compute.workers": ("-1", "100000"),
    "target.threads": ("0", "65536"),
    "target.batch": ("0", "10000000"),
    "target.cells": ("0", "100000"),
    "target.channels": ("0", "10000000"),
    "target.budget_ms": ("0", "-1.0", "nan", "inf", "1e300"),
    "target.percentile": ("42", "0", "100"),
    "target.max_noise_floor": ("1.0", "-0.1"),
    "target.space": ('"nowhere"', '""'),
    "profile.precision": ("[]", '["fp64"]', '"fp32"'),
    "profile.copies": ("1", "100000"),
    "profile.rounds": ("0", "10000000"),
    "profile.calibration_networks": ("2", "0"),
    "search.batch_size": ("1", "0", "10000000"),
    "search.epochs": ("0", "-3", "100000000"),
    "search.cells": ("0", "100000"),
    "search.channels": ("0", "10000000"),
    "search.weight_lr": ("0", "1e300", "nan"),
    "search.alpha_lr": ("-1.0", "1e300", "inf"),
    "search.warmup_share": ("1.0", "1.5", "-0.1"),
    "search.method": ('"magic"', "3"),
    "discretize.evidence_minutes": ("-1", "1e9", "nan"),
    "discretize.budgets_ms": ("[0.0]", "[nan]", '["5"]', "5.0"),
    "discretize.cells_grid": ("[0]", "[100000]", "[2.5]"),
    "retrain.batch_size": ("1", "0", "10000000"),
    "retrain.lr": ("0", "-0.1", "1e300", "nan"),
    "retrain.ema": ("1.0", "2"),
    "retrain.drop_path": ("1.0", "-1"),
    "retrain.epochs": ("0", "100000000"),
    "export.tolerance": ("0", "nan"),
    "export.format": ('"tflite"',),
    "autodo.label_start": ("0.0", "1.0"),
    "autodo.guide_share": ("1.0", "-0.5"),
}

_BROKEN = {
    "binary": b"\x00\xff\xfe\x80",
    "utf-16": "[data]\n".encode("utf-16"),
    "half a section": b"[data\nresolution = 8\n",
    "half a string": b'[data]\nformat = "dig',
    "a key twice": b"[data]\nresolution = 8\nresolution = 8\n",
    "a section twice": b"[data]\n[data]\n",
    "a section that is a number": b"data = 3\n",
    "a section that is a list": b"[[data]]\nresolution = 8\n",
    "unknown section": b"[dta]\nresolution = 8\n",
    "unknown key": b"[data]\nresolutoin = 8\n",
    "terminal codes in a key": b'[data]\n"\\u001b[2J\\u0007x" = 1\n',
    "line breaks in a key": b'[data]\n"a\\nerror: b\\nTraceback" = 1\n',
    "line separator in a section": '["\u2028"]\n'.encode(),
    "direction marks in a value": '[data]\nformat = "\u202edigits"\n'.encode(),
    "deep": b"a = " + b"[" * 3000 + b"]" * 3000,
    "deep keys": b".".join([b"a"] * 5000) + b" = 1\n",
    "a date": b"[data]\nresolution = 1979-05-27\n",
    "a huge number": b"[data]\nresolution = 1" + b"0" * 5000 + b"\n",
    "two megabytes": b"# x\n" * 500_000,
    "an empty key": b'[data]\n"" = 1\n',
    "a null byte in a path": b'[data]\nformat = "npz"\npath = "a\\u0000b"\n',
    "a home of nobody": b'[data]\nformat = "npz"\npath = "~nouser/x.npz"\n',
    "a path of 5,000 letters": b'[data]\nformat = "npz"\npath = "' + b"a" * 5000 + b'"\n',
    "a lone surrogate in a path": b'[data]\nformat = "npz"\npath = "\\udc80"\n',
}

COMMANDS = ("check", "search", "discretize", "retrain", "export", "profile")


def draw(random: Random) -> Case:
    """A bad pipeline.toml."""
    kind = random.choices(["type", "value", "impossible", "broken"], [3, 3, 4, 2])[0]
    if kind == "impossible":
        name = random.choice(list(_IMPOSSIBLE))
        return _case(random, name, random.choice(_IMPOSSIBLE[name]), "be refused")
    if kind == "broken":
        name = random.choice(list(_BROKEN))
        write = partial(_replace, content=_BROKEN[name])
        return Case("settings", f"a file with {name}", (random.choice(COMMANDS),), write, "be refused")
    section, setting, default, annotation = random.choice(_fields())
    while (text := toml(value := draw_value(random))) is None:
        pass
    if kind == "type" or not _fits(value, default, annotation):
        while _fits(value, default, annotation) or (text := toml(value)) is None:
            value = draw_value(random)
        return _case(random, f"{section}.{setting}", str(text), "be refused")
    return _case(random, f"{section}.{setting}", str(text), "end well", ("check",))


def _case(random: Random, name: str, text: str, must: Must, commands: tuple[str, ...] = COMMANDS) -> Case:
    section, setting = name.split(".")
    change = partial(change_setting, section=section, name=setting, value=text)
    return Case("settings", f"[{section}] {setting} = {text[:60]}", (random.choice(commands),), change, must)


def _replace(project: Path, content: bytes) -> None:
    (project / "pipeline.toml").write_bytes(content)


def _fields() -> list[tuple[str, str, Any, Any]]:
    return [
        (name, setting, field.default, field.annotation)
        for name, section in Config()
        for setting, field in type(section).model_fields.items()
    ]


def _fits(value: Any, default: Any, annotation: Any) -> bool:
    """Whether a value could be meant: of the type of the default, a whole number also where a fraction is."""
    if get_origin(annotation) is Literal:
        return value in get_args(annotation) and type(value) is type(get_args(annotation)[0])
    if isinstance(default, bool) or isinstance(value, bool):
        return type(value) is type(default)
    if isinstance(default, float):
        return isinstance(value, int | float) and math.isfinite(value) and value >= 0
    if isinstance(default, list | tuple):
        return isinstance(value, list)
    if isinstance(default, int):
        return isinstance(value, int) and 0 <= value < 2**63
    return isinstance(value, type(default))
