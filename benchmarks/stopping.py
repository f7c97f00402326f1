"""How long stages take to stop: real processes of the digits demo, signalled at several moments of their work.

`python -m benchmarks.stopping` makes the demo once with fewer epochs (steps are as long as in the demo), then runs
every stage again and again and signals it at start-up, in the middle and near its end.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pipeline.artifacts.stage_record import StageRecord
from pipeline.rundir import RunDir
from pipeline.stages import STAGES

ROOT = Path(__file__).parents[1]
NAMES = [stage.name for stage in STAGES]
SHORTER = {"search": {"epochs": "3"}, "retrain": {"epochs": "3"}, "discretize": {"evidence_minutes": "0.5"}}
START_UP_S = (0.3, 1.5, 3.5)
SHARES = (0.15, 0.4, 0.7)
LIMIT_S = 120.0
PIPELINE = (sys.executable, "-m", "pipeline")
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "--", "pipeline")


class Stop(NamedTuple):
    """One signal: which, so long after the start, to the process alone or to its group."""

    stage: str
    after_s: float
    number: signal.Signals
    launcher: tuple[str, ...] = PIPELINE
    group: bool = False


class Stopped(NamedTuple):
    """The time from the signal to the end of all processes, the exit code, and the last words."""

    seconds: float
    code: int
    words: str


def stop(one: Stop, project: Path) -> Stopped | None:
    """None where the stage had ended before its signal."""
    with (project / "output").open("w+") as output:
        command = [*one.launcher, one.stage]
        process = subprocess.Popen(
            command, cwd=project, stdout=output, stderr=output, stdin=subprocess.DEVNULL, start_new_session=True
        )
        try:
            process.wait(one.after_s)
            return None
        except subprocess.TimeoutExpired:
            start = time.monotonic()
        (os.killpg if one.group else os.kill)(process.pid, one.number)
        try:
            code = process.wait(LIMIT_S)
            while _group_lives(process.pid) and time.monotonic() - start < LIMIT_S:
                time.sleep(0.02)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
        seconds = time.monotonic() - start
        output.seek(0)
        words = [line.strip() for line in output if line.startswith("error: ")]
    return Stopped(seconds, code, words[-1] if words else "")


def _group_lives(pid: int) -> bool:
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return False
    return True


def make_demo(project: Path) -> Path:
    """All five stages of the demo, once."""
    project.mkdir()
    section, lines = "", []
    for line in (ROOT / "pipeline.toml").read_text().splitlines():
        section = line.strip("[] ") if line.startswith("[") else section
        name = line.partition("=")[0].strip()
        shorter = SHORTER.get(section, {}).get(name)
        lines.append(line if shorter is None else f"{name} = {shorter}")
    (project / "pipeline.toml").write_text("\n".join(lines) + "\n")
    subprocess.run([*PIPELINE, "run"], cwd=project, check=True)
    return project


def stage_again(finished: Path, stage: str, place: Path) -> Path:
    """The project as it was before the stage."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(finished, place)
    run = RunDir(place, "default")
    for name in NAMES[NAMES.index(stage) :]:
        shutil.rmtree(run.root / name, ignore_errors=True)
    if stage == "profile":
        shutil.rmtree(run.tables)
    shutil.rmtree(run.exports)
    return place


def plan(finished: Path, stages: list[str]) -> Iterator[Stop]:
    """SIGINT and SIGTERM in turn, at every moment of every stage; then torchrun."""
    for stage in stages:
        whole_s = StageRecord.read(RunDir(finished, "default").record(stage)).seconds
        moments = [*START_UP_S, *(START_UP_S[-1] + share * whole_s for share in SHARES)]
        for place, after_s in enumerate(moments):
            yield Stop(stage, after_s, (signal.SIGINT, signal.SIGTERM)[place % 2])


def plan_torchrun(finished: Path) -> Iterator[Stop]:
    """SIGINT and SIGTERM to torchrun alone, and to the group as a terminal does."""
    whole_s = StageRecord.read(RunDir(finished, "default").record("search")).seconds
    for after_s in (4.0, 12.0, 12.0 + whole_s / 2):
        for number, group in ((signal.SIGINT, False), (signal.SIGINT, True), (signal.SIGTERM, False)):
            yield Stop("search", after_s, number, TORCHRUN, group)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stages", nargs="*", default=NAMES, choices=NAMES)
    parser.add_argument("--torchrun", action="store_true", help="two processes under torchrun instead")
    parser.add_argument("--project", type=Path, help="where the demo is, or is made")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        finished = chosen.project or Path(place) / "finished"
        if not finished.exists():
            make_demo(finished)
        print("| stage | signal | after, s | stopped in, s | exit | said |\n|---|---|---|---|---|---|")
        for one in plan_torchrun(finished) if chosen.torchrun else plan(finished, chosen.stages):
            found = stop(one, stage_again(finished, one.stage, Path(place) / "project"))
            name = one.stage if one.launcher == PIPELINE else f"torchrun {one.stage}"
            to = f"{one.number.name}{' to the group' if one.group else ''}"
            ending = "ended before | | " if found is None else f"{found.seconds:.1f} | {found.code} | {found.words}"
            print(f"| {name} | {to} | {one.after_s:.1f} | {ending} |", flush=True)


if __name__ == "__main__":
    main()
