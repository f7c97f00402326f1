"""The folder of an export: built beside the old one, and put in its place only when it is whole."""

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.errors import UserError
from pipeline.rundir import RunDir
from pipeline.whole_files import read_json

# what a new export takes away with the old one; anything else in the folder is the user's and stays
OURS = {"model.onnx", "model.int8.onnx", "model.json", "labels.txt", "predict.py", "report.html"}


def owner_of(run: RunDir) -> dict[str, str]:
    """Which run an export belongs to: its name, a hash of where it lies, and its identity."""
    return {"name": run.name, "place": _place_of(run), "identity": run.identity()}


def _place_of(run: RunDir) -> str:
    return hashlib.sha256(str(run.root.resolve()).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _is_own(run: RunDir, owner: object) -> bool:
    """The same place (the run was started anew) or the same identity (the project was moved)."""
    if not isinstance(owner, dict) or owner.get("name") != run.name:
        return False
    moved = run.identity_file.is_file() and owner.get("identity") == run.identity()
    return moved or owner.get("place") == _place_of(run)


@contextmanager
def replacing(run: RunDir) -> Iterator[Path]:
    """An empty folder that takes the place of the run's export when the block ends without an error."""
    target, parent = run.exports, run.exports.parent
    # a run's name never starts with a dot, so these are nobody's
    building, aside = parent / f".{target.name}.building", parent / f".{target.name}.previous"
    try:
        parent.mkdir(parents=True, exist_ok=True)
        _recover(target, aside)
        _check_owner(run)
        if building.exists():
            shutil.rmtree(building)
        building.mkdir()
    except OSError as error:
        raise UserError(f"cannot write to {parent}: {error.strerror or error}") from None
    try:
        yield building
        _swap(building, target, aside)
    except OSError as error:
        raise UserError(f"cannot write the export: {error.strerror or error}; the previous one is untouched") from None
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _recover(target: Path, aside: Path) -> None:
    """Undo or finish a swap that was killed half-way."""
    if aside.exists():
        if target.exists():
            shutil.rmtree(aside)
        else:
            aside.rename(target)


def _check_owner(run: RunDir) -> None:
    folder = run.exports
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UserError(f"{folder} is not a folder; move it away, or choose another --run")
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    if not run.model_card.is_file():
        raise UserError(f"{folder} holds files but no model.json of ours; move it away, or choose another --run")
    card = read_json(run.model_card)
    if not isinstance(card, dict) or not _is_own(run, card.get("run")):
        raise UserError(f"{folder} is the export of another run; move it away, or choose another --run")


def _swap(building: Path, target: Path, aside: Path) -> None:
    if target.exists():
        for kept in target.iterdir():
            if kept.name not in OURS:
                (shutil.copytree if kept.is_dir() else shutil.copy2)(kept, building / kept.name)
        target.rename(aside)
    try:
        building.rename(target)
    except OSError:
        if aside.exists():
            aside.rename(target)
        raise
    shutil.rmtree(aside, ignore_errors=True)
