"""Presets: what differs from the defaults for a kind of data, as rows."""

from pathlib import Path
from typing import Any

from pipeline.config import Config
from pipeline.config_file import make_config, render_config
from pipeline.console import say
from pipeline.errors import UserError
from pipeline.whole_files import write_text

_CIFAR: dict[str, dict[str, Any]] = {
    "data": {"resolution": 32, "colour": True, "augment": "crop-flip-cutout"},
    "target": {"cells": 20, "channels": 36, "budget_ms": 20.0},
    "search": {"cells": 8, "channels": 16, "resolution": 16, "epochs": 50},
    "retrain": {"epochs": 600, "batch_size": 96, "lr": 0.025, "ema": 0.9999},
}

# Inverted bottlenecks learn with label smoothing and averaged weights, without the auxiliary head that cells need;
# their curvature is large, so that the implicit series wants a small step.
_MOBILE: dict[str, dict[str, Any]] = {
    "target": {"space": "mobile", "cells": 22, "channels": 32, "max_macs": 600_000_000},
    "search": {"cells": 22, "channels": 16, "gamma": 1e-4},
    "retrain": {"lr": 0.05, "label_smoothing": 0.1, "ema": 0.999, "auxiliary": 0.0},
}

_PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "digits": {
        "compute": {"threads": 1},  # so small a network gains little from a second one, and loses on a busy machine
        "target": {"budget_ms": 0.3, "max_noise_floor": 0.25},
        "profile": {"validate_networks": 6},
        "search": {"cells": 3, "channels": 4, "epochs": 12, "allow_unvalidated": True},
        "discretize": {"evidence_minutes": 0.5, "evidence_steps": 60, "evaluations": 64},
        "retrain": {
            "epochs": 12,
            "batch_size": 64,
            "lr": 0.1,
            "drop_path": 0.1,
            "auxiliary": 0.2,
            "ema": 0.99,
            "precision": "float32",
        },
    },
    "cifar10": {**_CIFAR, "data": {**_CIFAR["data"], "format": "cifar10", "path": "data/cifar-10-batches-py"}},
    "cifar100": {**_CIFAR, "data": {**_CIFAR["data"], "format": "cifar100", "path": "data/cifar-100-python"}},
    "imagenet-mobile": {
        "data": {"format": "folder", "path": "data/imagenet", "resolution": 224, "colour": True, "augment": "imagenet"},
        "compute": {"workers": 8},
        "target": {"cells": 14, "channels": 48, "budget_ms": 60.0, "max_macs": 600_000_000},
        "search": {"cells": 8, "channels": 16, "resolution": 64, "epochs": 50},
        "retrain": {
            "epochs": 250,
            "batch_size": 128,
            "lr": 0.0625,
            "schedule": "linear",
            "warmup_epochs": 5,
            "slow_epochs": 5,
            "weight_decay": 3e-5,
            "drop_path": 0.0,
            "label_smoothing": 0.1,
            "ema": 0.9999,
        },
    },
    # what phones run, for a folder of photos
    "mobile": {
        "data": {"format": "folder", "path": "images", "resolution": 128, "colour": True, "augment": "imagenet"},
        "target": {**_MOBILE["target"], "budget_ms": 4.0},
        "search": {**_MOBILE["search"], "resolution": 64, "epochs": 30},
        "retrain": {**_MOBILE["retrain"], "epochs": 150, "holdout_share": 0.1},
    },
    "mobile-cifar": {
        "data": {**_CIFAR["data"], "format": "cifar10", "path": "data/cifar-10-batches-py"},
        "target": {**_MOBILE["target"], "budget_ms": 2.0},
        "search": {**_MOBILE["search"], "resolution": 16, "epochs": 30},
        "retrain": {**_MOBILE["retrain"], "epochs": 300, "batch_size": 96},
    },
    # one to two hours in all for a thousand photos on two cores: each operation is trained two thousand times then
    "quick": {
        "data": {"format": "folder", "path": "images", "resolution": 48, "colour": True, "augment": "crop-flip"},
        "target": {"budget_ms": 2.0},
        "search": {"cells": 5, "resolution": 20, "epochs": 1200},
        "retrain": {"epochs": 80, "holdout_share": 0.1},
    },
    "folder": {
        "data": {"format": "folder", "path": "images", "resolution": 64, "colour": True, "augment": "crop-flip"},
        "target": {"cells": 8, "channels": 16, "budget_ms": 20.0},
        "search": {"cells": 5, "channels": 8, "resolution": 32, "epochs": 25},
        "retrain": {"epochs": 100, "holdout_share": 0.1},
    },
}
PRESET_NAMES: tuple[str, ...] = tuple(_PRESETS)


def preset(name: str) -> Config:
    """The configuration of a preset."""
    if name not in _PRESETS:
        raise UserError(f"unknown preset {name!r}; known are {', '.join(_PRESETS)}")
    return make_config(_PRESETS[name], f"the preset {name}")


def render_preset(name: str, full: bool) -> str:
    """The file of a preset: what users touch and what it sets otherwise than the defaults, or everything."""
    command = f"pipeline init --preset {name}"
    rest = "" if full else f"\nAll other settings are at their defaults; `{command} --full` shows them."
    return render_config(preset(name), f"The preset {name}, written by `{command}{' --full' * full}`.{rest}", full)


def write_preset(name: str, path: Path, force: bool, full: bool = False) -> None:
    """Write a preset as a commented file; an existing one is kept unless `force` is set."""
    text = render_preset(name, full)
    if path.exists() and not force:
        raise UserError(f"{path} exists; use --force to replace it or --config to write another file")
    write_text(path, text)
    first = "set [data] path in it, then " if preset(name).data.path else ""
    say(f"wrote {path}; next: {first}pipeline check, then pipeline run")
