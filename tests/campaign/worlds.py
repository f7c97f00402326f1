"""Odd surroundings: variables, limits, folders and readers that a program meets once in its life."""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.campaign.case import Case, Limits, Must, leave
from tests.campaign.project import change_setting


class World(NamedTuple):
    """Surroundings, the commands that meet them, and what must come of it."""

    commands: tuple[str, ...]
    change: Callable[[Path], None] = leave
    environment: Mapping[str, str] = {}
    limits: Limits = Limits()
    must: Must = "end well"


def _replace(name: str, kind: str) -> Callable[[Path], None]:
    """Something else in the place of a file or folder."""

    def change(project: Path) -> None:
        path = project / name
        if path.is_dir():
            shutil.rmtree(path)
        elif path.exists():
            path.unlink()
        if kind == "a file":
            path.write_text("a file")
        elif kind == "a pipe":
            os.mkfifo(path)
        elif kind == "a link round":
            path.symlink_to(path.name)
        else:
            path.symlink_to(kind)

    return change


def _names(*names: str) -> Callable[[Path], None]:
    def change(project: Path) -> None:
        listed = ", ".join('"' + "".join(f"\\U{ord(one):08x}" for one in name) + '"' for name in names)
        change_setting(project, "data", "class_names", f"[{listed}]")

    return change


def _write(name: str, content: bytes) -> Callable[[Path], None]:
    def change(project: Path) -> None:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_bytes(content)

    return change


def _odd_run(project: Path) -> None:
    """Folders in runs/ that are no run."""
    runs = os.fsencode(project / "runs")
    for name in (b"\xff\xfe", b"\x1b[2J", b"empty", b"a b", b".hidden"):
        os.makedirs(runs + b"/" + name)  # noqa: PTH103  names may be no text
    os.mkfifo(project / "runs" / "pipe")
    (project / "runs" / "loop").symlink_to(".")


def _lock(project: Path) -> None:
    (project / "runs" / "default" / ".lock").unlink()
    (project / "runs" / "default" / ".lock").mkdir()


_LABELS = tuple(f"{number}\u2028\x1b[31m\n{number}" for number in range(10))
_STAGES = ("search", "retrain", "export", "list", "report")
_WORLDS: dict[str, World] = {
    "RANK=abc": World(("retrain", "search", "list"), environment={"RANK": "abc"}),
    "RANK=-1": World(("retrain", "list"), environment={"RANK": "-1"}),
    "RANK=1 alone": World(("retrain", "list"), environment={"RANK": "1"}, must="be done"),
    "WORLD_SIZE=abc": World(("search --force",), environment={"WORLD_SIZE": "abc"}, must="be refused"),
    "WORLD_SIZE=2 alone": World(("retrain --force",), environment={"WORLD_SIZE": "2"}, must="be refused"),
    "WORLD_SIZE=0": World(("retrain --force",), environment={"WORLD_SIZE": "0"}),
    "LOCAL_RANK=abc": World(("retrain",), environment={"LOCAL_RANK": "abc"}),
    "COLUMNS=abc": World(_STAGES, environment={"COLUMNS": "abc"}, must="be done"),
    "COLUMNS=1": World(_STAGES, environment={"COLUMNS": "1"}, must="be done"),
    "COLUMNS=-5": World(_STAGES, environment={"COLUMNS": "-5"}, must="be done"),
    "TERM=nonsense": World(_STAGES, environment={"TERM": "nonsense"}, must="be done"),
    "NO_COLOR": World(_STAGES, environment={"NO_COLOR": "1"}, must="be done"),
    "FORCE_COLOR": World(_STAGES, environment={"FORCE_COLOR": "1"}, must="be done"),
    "TMPDIR nowhere": World(_STAGES, environment={"TMPDIR": "/nowhere"}),
    "HOME nowhere": World(_STAGES, environment={"HOME": "/nowhere"}, must="be done"),
    "LANG=C": World(_STAGES, environment={"LANG": "C", "LC_ALL": "C"}, must="be done"),
    "CUDA_VISIBLE_DEVICES=x": World(("retrain",), environment={"CUDA_VISIBLE_DEVICES": "x"}),
    "SOURCE_DATE_EPOCH=x": World(("report",), environment={"SOURCE_DATE_EPOCH": "x"}),
    "12 open files": World(_STAGES, limits=Limits(open_files=12)),
    "20 open files": World(_STAGES, limits=Limits(open_files=20)),
    "32 open files": World((*_STAGES, "search --force"), limits=Limits(open_files=32)),
    "8,000 bytes a file": World(("list", "check", "report", "search --force"), limits=Limits(file_bytes=8000)),
    "a run that is a file": World(("search", "list", "report"), _replace("runs/default", "a file"), must="end well"),
    "runs is a file": World(("search", "retrain"), _replace("runs", "a file"), must="be refused"),
    "runs is a pipe": World(("search", "retrain", "list"), _replace("runs", "a pipe")),
    "runs is a link round": World(("search", "retrain", "list"), _replace("runs", "a link round")),
    "exports is a file": World(("export --force",), _replace("exports", "a file"), must="be refused"),
    "exports is a link round": World(("export --force",), _replace("exports", "a link round"), must="be refused"),
    "latency_tables is a file": World(("search", "profile"), _replace("latency_tables", "a file"), must="end well"),
    "the lock is a folder": World(("search", "retrain"), _lock),
    "the lock is a pipe": World(("search", "retrain"), _replace("runs/default/.lock", "a pipe")),
    "pipeline.toml is a pipe": World(("search", "check", "list"), _replace("pipeline.toml", "a pipe")),
    "pipeline.toml is a device": World(("search", "check"), _replace("pipeline.toml", "/dev/zero"), must="be refused"),
    "pipeline.toml is a link round": World(("check",), _replace("pipeline.toml", "a link round"), must="be refused"),
    "folders that are no runs": World(("list", "list --json", "report"), _odd_run),
    "labels that steer a terminal": World(("retrain", "list", "report"), _names(*_LABELS)),
    "a label twice": World(("retrain",), _names(*("a",) * 10), must="be refused"),
    "empty labels": World(("retrain",), _names(*("",) * 10), must="be refused"),
    "flags.json of text": World(("search", "list"), _write("runs/default/flags.json", b"text")),
    "flags.json of lists": World(("search",), _write("runs/default/flags.json", b'{"search": []}'), must="be refused"),
    "flags.json of NaN": World(
        ("search",), _write("runs/default/flags.json", b'{"search": {"weight_lr": NaN}}'), must="be refused"
    ),
    "flags.json of unknowns": World(
        ("search",), _write("runs/default/flags.json", b'{"serch": {"\\u001b[2J": 1}}'), must="be refused"
    ),
    "flags.json of depth": World(("search",), _write("runs/default/flags.json", b"[" * 99_999), must="be refused"),
    "flags.json that is a pipe": World(("search",), _replace("runs/default/flags.json", "a pipe")),
    "a history of depth": World(("report", "list"), _write("runs/default/search/history.jsonl", b"[" * 99_999)),
    "a history of one endless line": World(("report",), _write("runs/default/retrain/history.jsonl", b"a" * 9_000_000)),
    "a history of figures that are text": World(
        ("report",), _write("runs/default/retrain/history.jsonl", b'{"step": 1, "epoch": "x", "train_loss": []}\n' * 9)
    ),
    "a checkpoint of nothing": World(
        ("retrain --epochs 2", "retrain --force"), _write("runs/default/retrain/checkpoint/000000-step-0-0.pt", b"")
    ),
    "a checkpoint of an older version": World(
        ("retrain --epochs 2",), _write("runs/default/retrain/checkpoint/state.pt", b"\x80\x02}q\x00.")
    ),
    "a checkpoint that is a file": World(("retrain --epochs 2",), _write("runs/default/retrain/checkpoint", b"x")),
    "half-written files of the dead": World(
        ("retrain --force",), _write("runs/default/retrain/.weights.safetensors.abc.part", b"half"), must="be done"
    ),
}


def draw(random: Random) -> Case:
    """One command in one world."""
    name = random.choice(list(_WORLDS))
    world = _WORLDS[name]
    arguments = tuple(random.choice(world.commands).split())
    return Case("worlds", name, arguments, world.change, world.must, world.environment, world.limits)
