"""A run on disk: every path named once, files that appear whole or not at all, hashes, and who is using the run."""

import fcntl
import hashlib
import json
import os
import re
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.errors import UserError

DEFAULT_RUN = "default"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class RunDir:
    """The folders and files of one run of the project in `project` (the folder of pipeline.toml)."""

    project: Path
    name: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or ".." in self.name:
            raise UserError(f"{self.name!r} cannot name a run: use letters, digits, dots, dashes and underscores")

    @property
    def flag(self) -> str:
        """What a command line needs to name this run."""
        return "" if self.name == DEFAULT_RUN else f" --run {self.name}"

    @property
    def root(self) -> Path:
        return self.project / "runs" / self.name

    @property
    def exports(self) -> Path:
        return self.project / "exports" / self.name

    @property
    def tables(self) -> Path:
        return self.project / "latency_tables"

    @property
    def config(self) -> Path:
        return self.root / "config.toml"

    @property
    def flags(self) -> Path:
        """The settings given on the command line, which later commands of the same run keep to."""
        return self.root / "flags.json"

    @property
    def environment(self) -> Path:
        return self.root / "environment.json"

    @property
    def splits(self) -> Path:
        return self.root / "splits.json"

    def identity(self) -> str:
        """A name for this run alone, which stays with it when the project moves."""
        path = self.root / "identity"
        if not path.is_file():
            write_text(path, uuid.uuid4().hex)
        return path.read_text(encoding="utf-8").strip()

    def record(self, stage: str) -> Path:
        """What a finished stage read and wrote."""
        return self.root / stage / "record.json"

    def history(self, stage: str) -> Path:
        return self.root / stage / "history.jsonl"

    def checkpoints(self, stage: str) -> Path:
        return self.root / stage / "checkpoint"

    def tensorboard(self, stage: str) -> Path:
        return self.root / stage / "tensorboard"

    @property
    def alphas(self) -> Path:
        return self.root / "search" / "alphas.safetensors"

    @property
    def supernet_weights(self) -> Path:
        return self.root / "search" / "weights.safetensors"

    @property
    def genotype(self) -> Path:
        return self.root / "discretize" / "genotype.json"

    @property
    def selection(self) -> Path:
        return self.root / "discretize" / "selection.json"

    @property
    def certificate(self) -> Path:
        return self.root / "discretize" / "certificate.json"

    @property
    def weights(self) -> Path:
        return self.root / "retrain" / "weights.safetensors"

    @property
    def metrics(self) -> Path:
        return self.root / "retrain" / "metrics.json"

    @property
    def model(self) -> Path:
        return self.exports / "model.onnx"

    @property
    def int8_model(self) -> Path:
        return self.exports / "model.int8.onnx"

    @property
    def model_card(self) -> Path:
        return self.exports / "model.json"

    @property
    def labels(self) -> Path:
        return self.exports / "labels.txt"

    @property
    def predict_script(self) -> Path:
        return self.exports / "predict.py"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run for this process; a second one is refused. The system lets go when the process dies.

        A run that is as empty afterwards as it was before leaves no trace.
        """
        missing = [folder for folder in (self.root, self.root.parent) if not folder.exists()]
        self.root.mkdir(parents=True, exist_ok=True)
        lock = self.root / ".lock"
        with lock.open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(
                    f"the run {self.name!r} is in use by another process; wait for it or use --run"
                ) from None
            try:
                yield
            finally:
                if missing and list(self.root.iterdir()) == [lock]:
                    lock.unlink()
                    for folder in missing:
                        with suppress(OSError):
                            folder.rmdir()


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place, synced to disk, when the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    os.close(handle)
    part = Path(name)
    try:
        yield part
        part.chmod(0o666 & ~_umask())
        _sync(part)
        part.replace(path)
        _sync(path.parent)
    finally:
        part.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    with writing(path) as part:
        part.write_text(text, encoding="utf-8")


def write_json(path: Path, value: object) -> None:
    """The value as indented JSON; NaN and infinities are refused, for JSON has none."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """A JSON file of ours."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise UserError(f"{path} is damaged: it is not JSON; delete it and run the stage that makes it") from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
