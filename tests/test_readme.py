"""The README is executed: its shell commands in order, on a handful of photos (its Python in test_pipeline)."""

import os
import re
import shlex
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from PIL import Image

from pipeline.cli.commands import app

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
SHELL = [line for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL) for line in block.splitlines()]
# in running text, between backticks
INLINE = re.findall(r"`((?:pipeline|torchrun|make|tensorboard) [^`]*)`", README)
# indented, on every page
INDENTED = [
    line
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))
    for line in re.findall(r"(?m)^    (pipeline .*)$", page.read_text(encoding="utf-8"))
]
# as small as it gets; what is in the file already keeps its line
SMALLER: dict[str, dict[str, object]] = {
    "data": {"resolution": 16, "augment": '"none"'},
    "target": {"cells": 3, "channels": 4, "max_noise_floor": 0.99},
    "profile": {"rounds": 4, "calibration_networks": 4, "validate_networks": 3},
    "search": {
        "channels": 2,
        "resolution": 0,
        "inner_steps": 2,
        "epochs": 1,
        "batch_size": 8,
        "allow_unvalidated": "true",
    },
    "discretize": {"evidence_minutes": 0.01, "evidence_steps": 5, "evaluations": 4},
    "retrain": {"epochs": 1, "batch_size": 16},
}


def commands(lines: list[str]) -> list[list[str]]:
    """The words of every call of `pipeline`, without comments."""
    split = [shlex.split(line, comments=True) for line in lines]
    return [words[words.index("pipeline") + 1 :] for words in split if "pipeline" in words and "…" not in words]


def test_every_command_and_flag_of_the_readme_and_the_other_pages_exists() -> None:
    known: Any = typer.main.get_command(app)
    checked = 0
    for words in commands([*SHELL, *INLINE, *INDENTED]):
        command = known.commands[words[0]] if words else known
        assert command is not None, words
        flags = {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
        assert {word for word in words if word.startswith("--")} <= flags, words
        checked += 1
    assert len(INDENTED) > 8 and checked > 30


def test_the_commands_without_a_run_are_those_that_the_readme_names() -> None:
    known: Any = typer.main.get_command(app)
    without = {
        name
        for name, command in known.commands.items()
        if not any("--run" in parameter.opts for parameter in command.params)
    }
    named = re.search(r"Every command takes `--help`, and all but (.*) take `--run NAME`", README)
    assert named and set(re.findall(r"`(\w+)`", named[1])) == without


def test_every_make_target_of_the_readme_exists() -> None:
    wanted = [shlex.split(line, comments=True) for line in [*SHELL, *INLINE] if line.startswith("make ")]
    assert len(wanted) >= 3
    for words in wanted:
        done = subprocess.run(["make", "-n", *words[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_make_bench_prints_commands_that_work() -> None:
    printed = subprocess.run(
        ["make", "-s", "bench", f"BIN={Path(sys.executable).parent}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    modules = re.findall(r"python -m (\S+)", printed)
    assert "benchmarks.latency" in modules
    for module in modules:
        path = ROOT / f"{module.replace('.', '/')}.py"
        assert "argparse" in path.read_text(encoding="utf-8"), f"{module} has a command line"


def test_the_files_that_the_architecture_names_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(?:pipeline/)?([a-z0-9_]+/(?:[a-z0-9_/]+\.py)?|[a-z_]+\.py)`", text)) - {"tests/"}
    assert len(named) > 25
    assert not {name for name in named if not (ROOT / "pipeline" / name).exists()}


def shrink(settings: str) -> str:
    """pipeline.toml with the settings of SMALLER."""
    for section, values in SMALLER.items():
        for name, value in values.items():
            head, _, body = settings.partition(f"[{section}]\n")
            own, bracket, rest = body.partition("\n[")
            own = re.sub(rf"^{name} = .*\n?", "", own, flags=re.MULTILINE)
            settings = f"{head.rstrip()}\n\n[{section}]\n{name} = {value}\n{own}{bracket}{rest}"
    return settings


def install_stand_ins(folder: Path) -> None:
    """`pipeline` and `python` as in the activated environment; `make` only says what it would do."""
    folder.mkdir()
    scripts = {
        "pipeline": f'"{sys.executable}" -m pipeline "$@" || exit $?\n'
        f'if [ "$1" = init ]; then "{sys.executable}" -m tests.test_readme; fi',
        "python": f'exec "{sys.executable}" "$@"',
        "make": f'exec /usr/bin/env -u MAKEFLAGS "$(PATH=/usr/bin:/bin command -v make)" -n -C "{ROOT}" "$@"',
    }
    for name, body in scripts.items():
        path = folder / name
        path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)


def make_photos(folder: Path) -> None:
    random = np.random.default_rng(0)
    for shade, label in enumerate(("cat", "dog")):
        (folder / label).mkdir(parents=True)
        for number in range(40):
            pixels = random.integers(100 * shade, 100 * shade + 90, (24, 32, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / label / f"{number}.jpg")


@pytest.mark.slow
def test_the_commands_of_the_readme_run_in_order(tmp_path: Path) -> None:
    make_photos(tmp_path / "photos")
    install_stand_ins(tmp_path / "bin")
    work = tmp_path / "work"
    work.mkdir()
    torchrun = [line for line in INLINE if line.startswith("torchrun ")]
    again = [line for line in INLINE if line.startswith("pipeline run ")]
    assert torchrun and again
    # whether a rival can be made as fast as so small a network hangs on the moment; tests/stages/test_compare.py has it
    shell = [line for line in SHELL if not line.startswith("pipeline compare")]
    lines = [*shell, *again, *(f"{line} --force" for line in torchrun)]
    script = "\n".join(["set -e", "set -x", *lines])
    path = os.pathsep.join([str(tmp_path / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    done = subprocess.run(
        ["sh", "-c", script], cwd=work, env=environment, capture_output=True, text=True, check=False, timeout=3000
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert (work / "exports" / "default" / "model.onnx").is_file()
    assert (work / "kit" / "kit_result.json").is_file()
    assert done.stdout.count(".jpg\n") == 40, "predict.py answers for every image of the folder"


if __name__ == "__main__":
    settings_file = Path("pipeline.toml")
    settings_file.write_text(shrink(settings_file.read_text(encoding="utf-8")), encoding="utf-8")
