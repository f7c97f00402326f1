"""kill -9 at any touch of the project, in every stage: the same command goes on and ends with the same bytes."""

import shutil
import signal
import tempfile
from collections.abc import Iterator
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

from pipeline.stages import STAGES
from pipeline.whole_files import read_json
from tests.campaign.case import Case, Limits
from tests.campaign.oracle import read_tree
from tests.campaign.player import COUNTED, run
from tests.campaign.project import change_setting

NAMES = [stage.name for stage in STAGES]
# what does not depend on a clock, beside tables and their pictures
_SAME = {
    "profile": (),
    "search": ("search/alphas.safetensors", "search/weights.safetensors", "search/judged.safetensors"),
    "discretize": ("discretize/genotype.json", "discretize/certificate.json"),
    "retrain": (
        "retrain/weights.safetensors",
        "retrain/last.safetensors",
        "retrain/metrics.json",
        "retrain/mistakes.json",
    ),
    "export": tuple(f"../../exports/default/{name}" for name in ("model.onnx", "labels.txt", "predict.py")),
}
_RESUMED = {"search": "resumed from step", "retrain": "going on from"}


def prepare_kills(project: Path) -> None:
    """Longer stages that save after every step; how often they save is no part of the result."""
    for section in ("search", "retrain"):
        change_setting(project, section, "epochs", "3")
        change_setting(project, section, "checkpoint_s", "1e-9")
    change_setting(project, "retrain", "precision", '"float32"')  # auto goes by the clock where a training begins


def draw_kills(count: int, finished: Path, server: ForkServerContext) -> Iterator[tuple[str, int]]:
    """Kills spread evenly over all stages, and in each over all its touches of the project."""
    for number, stage in enumerate(NAMES):
        own = count // len(NAMES) + (number < count % len(NAMES))
        touches = _count_touches(stage, finished, server)
        for place in range(own):
            yield stage, 1 + (place * touches + touches // 2) // max(own, 1) if own < touches else 1 + place % touches


def _count_touches(stage: str, finished: Path, server: ForkServerContext) -> int:
    with tempfile.TemporaryDirectory() as place:
        project = _before(stage, finished, Path(place))
        ending = run(Case("kills", "counted", (stage,), limits=Limits(fault="count")), project, Path(place), server)
        return ending.stdout.count(COUNTED.decode())


def kill(stage: str, at: int, finished: Path, server: ForkServerContext) -> list[str]:
    """One kill; what was wrong afterwards."""
    with tempfile.TemporaryDirectory() as place:
        project = _before(stage, finished, Path(place))
        case = Case("kills", f"{stage} at touch {at}", (stage,), limits=Limits(fault="kill", fault_at=at))
        ending = run(case, project, Path(place), server)
        if ending.code != -signal.SIGKILL:
            return [f"ended with {ending.code} before the kill: {ending.stderr[-200:]}"]
        saved = any((project / "runs/default" / stage).glob("checkpoint/**/*.pt"))
        again = run(Case("kills", "again", (stage,)), project, Path(place), server)
        messages = again.stderr.removeprefix(ending.stderr)  # both are written to one file
        return list(_faults(stage, finished, project, again.code, messages, saved))


def _faults(stage: str, finished: Path, project: Path, code: int, messages: str, saved: bool) -> Iterator[str]:
    if code:
        yield f"the same command ended with {code}: {messages[-300:]}"
        return
    if "▶" not in messages:  # it was killed after its record was there
        saved = False
    for name in _SAME[stage]:
        one, other = ((place / "runs/default" / name).resolve() for place in (finished, project))
        if one.exists() and (not other.exists() or one.read_bytes() != other.read_bytes()):
            yield f"{name} differs"
    if saved and stage in _RESUMED and _RESUMED[stage] not in messages:
        yield "what was saved was lost"
    if stage != "profile" and not (project / "runs/default" / stage / "record.json").is_file():
        yield "no record"  # a table that is there will do, whoever measured it
    found, wanted = read_tree(project), read_tree(finished)
    left = [name for name in found if name.endswith((".part", ".building")) or "/checkpoint" in name]
    tables = [name for name in {*found} ^ {*wanted} if name.startswith("latency_tables/")]
    missing = [name for name in tables if name in wanted]
    if missing:
        yield f"missing: {', '.join(missing)}"
    for name in found:
        if name.startswith("latency_tables/") and _timed(project / name) != _timed(finished / name):
            yield f"{name} differs"
    if left or len(tables) > len(missing):
        yield f"left over: {', '.join({*left, *tables} - {*missing})}"


def _timed(path: Path) -> Any:
    """A table without the hour it was measured and the seal over it; a picture as it is."""
    if not path.is_file() or path.suffix != ".json":
        return path.read_bytes() if path.is_file() else None
    return {name: value for name, value in read_json(path).items() if name not in ("measured", "sha256")}


def _before(stage: str, finished: Path, place: Path) -> Path:
    """The project as it was before the stage."""
    project = place / "project"
    shutil.copytree(finished, project, symlinks=True)
    for name in NAMES[NAMES.index(stage) :]:
        shutil.rmtree(project / "runs" / "default" / name, ignore_errors=True)
    if stage == "profile":
        shutil.rmtree(project / "latency_tables")
    shutil.rmtree(project / "exports")
    return project
