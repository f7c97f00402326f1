"""What `pipeline search --dry-run` takes for every preset: CPU seconds, seconds by the clock, the peak of memory.

    python -m benchmarks.dry_run [--photos 900] [--presets folder,quick,…]

Presets for folders get generated photos (JPEG, 640 × 480), those for CIFAR an archive of 25,000 noise images. The
latency table is made up, which the time of a step does not depend on. Prints markdown.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from pipeline.config import Config
from pipeline.presets import PRESET_NAMES, preset
from pipeline.space.skeleton import Skeleton
from tests.latency.made import made_table

_CLASSES, _SIZE = 3, (640, 480)
_ARRAYS = ("cifar10", "cifar100")


class Cost(NamedTuple):
    """Of one process."""

    cpu_s: float
    wall_s: float
    peak_gb: float
    said: str


def write_photos(folder: Path, count: int) -> None:
    """Noise that JPEG compresses about as well as photos, in class folders."""
    generator = np.random.default_rng(0)
    for number in range(count):
        path = folder / f"class{number % _CLASSES}" / f"{number:05d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        coarse = Image.fromarray(generator.integers(0, 256, (60, 80, 3), dtype=np.uint8))
        coarse.resize(_SIZE, Image.Resampling.BICUBIC).save(path, quality=90)


def write_archive(path: Path) -> None:
    generator = np.random.default_rng(0)
    parts = {"train": 25_000, "test": 5_000}
    arrays: dict[str, Any] = {}
    for name, count in parts.items():
        arrays[f"x_{name}"] = generator.integers(0, 256, (count, 32, 32, 3), dtype=np.uint8)
        arrays[f"y_{name}"] = np.arange(count) % 10
    np.savez(path, **arrays)


def data_flags(config: Config, folder: Path) -> dict[str, str]:
    """The settings that lead a preset to the data made here."""
    arrays = config.data.format in _ARRAYS
    return {"format": "npz", "path": str(folder / "images.npz")} if arrays else {"path": str(folder / "photos")}


def make_project(name: str, data: Path, project: Path) -> list[str]:
    """A project of the preset with a table in the middle of whose networks the budget lies; its command line."""
    config, project = preset(name), project / name
    project.mkdir()
    flags = {} if config.data.format == "digits" else data_flags(config, data)
    classes = 10 if flags.get("format") == "npz" or not flags else _CLASSES
    target, images = config.target, config.data
    skeleton = Skeleton(
        target.space, target.cells, target.channels, images.resolution, classes, images.in_channels, target.stem
    )
    table = made_table(skeleton)
    table.write(project / "table.json")
    times = [network.p50_ms for network in table.column("fp32").skeletons[0].calibration_networks]
    (project / "pipeline.toml").write_text(render(name, flags), encoding="utf-8")
    command = [sys.executable, "-m", "pipeline", "search", "--dry-run", "--table", "table.json", "--allow-mismatch"]
    return [*command, "--budget-ms", f"{np.median(times):.3f}"]


def render(name: str, flags: dict[str, str]) -> str:
    from pipeline.config_file import render_config

    config = preset(name)
    return render_config(config.model_copy(update={"data": config.data.model_copy(update=flags)}), "A dry run.", True)


def measure(command: list[str], project: Path) -> Cost:
    """Run it to its end."""
    with tempfile.TemporaryFile("w+") as said:
        started, pid = time.monotonic(), os.fork()
        if pid == 0:
            os.dup2(said.fileno(), 2)
            os.chdir(project)
            os.execv(command[0], command)
        _, status, used = os.wait4(pid, 0)
        wall_s = time.monotonic() - started
        said.seek(0)
        text = said.read()
    if status:
        sys.exit(f"{' '.join(command)} failed in {project}: {text}")
    return Cost(used.ru_utime + used.ru_stime, wall_s, used.ru_maxrss / 1e6 * 1.024, text)


def rows(names: list[str], photos: int) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_photos(folder / "photos", photos)
        write_archive(folder / "images.npz")
        for name in names:
            cost = measure(make_project(name, folder, folder), folder / name)
            said = [line for line in cost.said.splitlines() if line.startswith(("time: ", "shorter: "))]
            yield f"| {name} | {cost.cpu_s:.0f} | {cost.wall_s:.0f} | {cost.peak_gb:.2f} | {' · '.join(said)} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=int, default=900)
    parser.add_argument("--presets", default=",".join(PRESET_NAMES))
    options = parser.parse_args()
    print("| preset | CPU s | clock s | peak GB | what it says |\n|---|---|---|---|---|")
    for row in rows(options.presets.split(","), options.photos):
        print(row, flush=True)


if __name__ == "__main__":
    main()
