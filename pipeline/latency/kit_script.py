"""The script of a timing kit: measures all models beside it into one JSON file; stopped, it goes on where it was.

Needs only Python, numpy and onnxruntime.
"""

import argparse
import hashlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from pipeline.errors import PipelineError, UserError
from pipeline.latency.measure import Effort, Journal, journal_from_record, measure_models
from pipeline.latency.onnx_device import OnnxDevice

KIT_FILE, RESULT_FILE = "kit.json", "kit_result.json"


def main(folder: Path) -> int:
    """The command line of the kit in `folder`."""
    parser = argparse.ArgumentParser(description="Times the models of this kit on this machine.")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--out", type=Path, default=folder / RESULT_FILE, help="the file to send back")
    options = parser.parse_args()
    try:
        time_kit(folder, options.device, options.out)
    except PipelineError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("\nstopped; the same command goes on from here\n")
        return 130
    return 0


def time_kit(folder: Path, device_kind: str, out: Path) -> None:
    """Every group of models in turn; the result is saved after every round."""
    kit = json.loads((folder / KIT_FILE).read_text(encoding="utf-8"))
    paths = {name: _checked(folder, **entry) for name, entry in kit["files"].items()}
    device = OnnxDevice(device_kind, 0, kit["threads"], kit["batch"])
    result = {"kit": kit, "kit_id": kit_id(kit), "fingerprint": device.fingerprint.record()}
    journal = _take_up(out, result)
    started = time.monotonic()
    for index, names in enumerate(kit["groups"]):

        def after_round(journal: Journal, share: float, index: int = index) -> None:
            _save(out, {**result, "complete": False, "journal": journal.record()})
            _show((index + share) / len(kit["groups"]), time.monotonic() - started)

        models = {name: paths[name] for name in names}
        measure_models(device, models, paths[kit["sentinel"]], Effort(**kit["effort"]), journal, after_round)
    _save(out, {**result, "complete": True, "journal": journal.record()})
    sys.stderr.write(f"\ndone: {out}\n")


def kit_id(kit: dict[str, Any]) -> str:
    """A name for exactly this kit: its models, networks and settings."""
    return hashlib.sha256(json.dumps(kit, sort_keys=True).encode()).hexdigest()


def _checked(folder: Path, file: str, sha256: str) -> Path:
    path = folder / file
    if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
        raise UserError(f"{path} is missing or damaged; copy the kit again")
    return path


def _take_up(out: Path, result: dict[str, Any]) -> Journal:
    """What an earlier call has measured of the same kit on the same device."""
    try:
        found = json.loads(out.read_text(encoding="utf-8"))
        if all(found[name] == result[name] for name in result):
            return journal_from_record(found["journal"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return Journal()


def _save(out: Path, result: dict[str, Any]) -> None:
    part = out.with_name(out.name + ".part")
    with part.open("w", encoding="utf-8") as file:
        json.dump(result, file, allow_nan=False)
        file.flush()
        os.fsync(file.fileno())
    part.replace(out)


def _show(share: float, elapsed_s: float) -> None:
    left_s = elapsed_s / share - elapsed_s
    bar = "#" * round(30 * share)
    sys.stderr.write(f"\r[{bar:<30}] {share:4.0%}  {elapsed_s:.0f} s, {left_s:.0f} s left  ")
    sys.stderr.flush()
