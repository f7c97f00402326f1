"""Timing kits: models as a folder that a machine with only Python, numpy and onnxruntime can measure.

A kit carries the very files of the timing core beside its script, so that there is one implementation of timing.
"""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.errors import UserError
from pipeline.fingerprint import Fingerprint, fingerprint_from_record
from pipeline.latency.kit_script import KIT_FILE, RESULT_FILE, kit_id
from pipeline.latency.measure import Effort, Journal, journal_from_record
from pipeline.latency.models import make_sentinel
from pipeline.latency.onnx_device import OnnxDevice
from pipeline.whole_files import read_given, write_json, write_text

Thunk = Callable[[], Any]

KIT_VERSION = 1
_MAX_FILE_MB = 500
_SENTINEL = "sentinel"
_CARRIED: tuple[str, ...] = (
    "__init__.py",
    "errors.py",
    "latency/__init__.py",
    "fingerprint.py",
    "latency/kit_script.py",
)
_CARRIED += ("latency/measure.py", "latency/onnx_device.py", "latency/statistics.py")
_SCRIPT = '''"""Times the models of this kit: `python time_kit.py`. Needs numpy and onnxruntime."""

import sys
from pathlib import Path

from pipeline.latency.kit_script import main

sys.exit(main(Path(__file__).resolve().parent))
'''


class Kit(NamedTuple):
    """What is timed: models in groups that are interleaved, what they are about, and the command that takes them back.

    The entries of `about` are compared when the result comes back.
    """

    about: dict[str, Any]
    groups: list[dict[str, Thunk]]
    effort: Effort
    threads: int
    batch: int
    command: str


class KitResult(NamedTuple):
    """What a target has measured of a kit. `kit` is kit.json as it was written."""

    kit: dict[str, Any]
    fingerprint: Fingerprint
    journal: Journal


def write_kit(kit: Kit, folder: Path, progress: Callable[[float], None] = lambda share: None) -> None:
    """Write the kit into a new folder, which appears whole or not at all."""
    if folder.exists() and any(folder.iterdir() if folder.is_dir() else [folder]):
        raise UserError(f"{folder} exists and is not empty; give --write-kit a new folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as scratch:
        made = Path(scratch, "kit")
        _write_models(kit, made, progress)
        _write_script(made, kit.command)
        if folder.exists():
            folder.rmdir()
        made.replace(folder)


def make_device(batch: int) -> OnnxDevice:
    """A device that only says which batch and format models are made for."""
    return OnnxDevice("cpu", 0, 1, batch)


def _write_models(kit: Kit, folder: Path, progress: Callable[[float], None]) -> None:
    (folder / "models").mkdir(parents=True)
    makers = {name: make for group in kit.groups for name, make in group.items()}
    makers[_SENTINEL] = lambda: make_sentinel(make_device(kit.batch))
    files = {}
    for index, (name, make) in enumerate(makers.items()):
        content: bytes = make()
        file = f"models/{index:04d}.onnx"
        (folder / file).write_bytes(content)
        files[name] = {"file": file, "sha256": hashlib.sha256(content).hexdigest()}
        progress((index + 1) / len(makers))
    record = {
        "kit_version": KIT_VERSION,
        **_as_json(kit.about),
        "threads": kit.threads,
        "batch": kit.batch,
        "effort": asdict(kit.effort),
        "sentinel": _SENTINEL,
        "groups": [list(group) for group in kit.groups],
        "files": files,
    }
    write_json(folder / KIT_FILE, record)


def _as_json(record: dict[str, Any]) -> dict[str, Any]:
    """As it comes back from a file: tuples are lists there."""
    found: dict[str, Any] = json.loads(json.dumps(record))
    return found


def _write_script(folder: Path, command: str) -> None:
    package = Path(__file__).resolve().parents[1]
    for name in _CARRIED:
        target = folder / "pipeline" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(package / name, target)
    write_text(folder / "time_kit.py", _SCRIPT)
    write_text(
        folder / "README.txt",
        "Copy this folder to the target, then there:\n\n    pip install numpy onnxruntime\n    python time_kit.py\n\n"
        f"It may be stopped and started again. Bring {RESULT_FILE} back:\n\n"
        f"    pipeline {command} --from-kit {RESULT_FILE}\n",
    )


def read_kit(path: Path, about: dict[str, Any]) -> KitResult:
    """What a kit has measured; results that are incomplete, damaged or about something else are refused."""
    result = _read_result(path)
    try:
        kit, found_id = result["kit"], result["kit_id"]
        version, complete = kit["kit_version"], result["complete"]
        journal = journal_from_record(result["journal"])
        names = [name for group in kit["groups"] for name in group]
        threads, batch = kit["threads"], kit["batch"]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UserError(f"{path} is not the result of a timing kit") from None
    if version != KIT_VERSION:
        raise UserError(
            f"{path} comes from a kit of version {version!r}, this program reads {KIT_VERSION}; write a new kit"
        )
    if found_id != kit_id(kit):
        raise UserError(f"{path} was changed after it was measured; run time_kit.py again")
    _check_about(path, kit, _as_json(about))
    if not complete or not all(journal.readings.get(name) for name in names):
        raise UserError(f"{path} is not complete; run time_kit.py again, it goes on where it was stopped")
    _check_times(path, journal)
    fingerprint = fingerprint_from_record(result.get("fingerprint"), str(path))
    if (fingerprint.threads, fingerprint.batch) != (threads, batch):
        raise UserError(f"{path}: the fingerprint does not belong to this kit; run time_kit.py again")
    return KitResult(kit, fingerprint, journal)


def _read_result(path: Path) -> dict[str, Any]:
    content = read_given(path, _MAX_FILE_MB)
    try:
        result = json.loads(content)
    except (ValueError, RecursionError):
        raise UserError(f"{path} is not JSON; copy {RESULT_FILE} from the target again") from None
    if not isinstance(result, dict):
        raise UserError(f"{path} is not the result of a timing kit")
    return result


def _check_about(path: Path, kit: dict[str, Any], about: dict[str, Any]) -> None:
    names = []
    for key, wanted in about.items():
        found = kit.get(key)
        if isinstance(found, dict) and isinstance(wanted, dict):
            names += [name for name in wanted if found.get(name) != wanted[name]]
        elif found != wanted:
            names.append(key)
    if names:
        raise UserError(
            f"{path} is the result of another kit: it differs in {', '.join(names)} from what the configuration asks "
            "for; use the configuration that wrote the kit, or write a new one"
        )


def _check_times(path: Path, journal: Journal) -> None:
    readings = [reading for own in journal.readings.values() for reading in own]
    optional = [value for reading in readings for value in (reading.cpu_ms, reading.sentinel_ms) if value is not None]
    times = [*journal.looks, *(reading.wall_ms for reading in readings), *optional]
    if not all(isinstance(value, int | float) and 0.0 < value < float("inf") for value in times):
        raise UserError(f"{path} holds times that are not positive numbers; run time_kit.py again")
