"""Checkpoints that survive a power cut: whole or absent, verified before use, and bound to their configuration.

A file is named `SERIAL-step-STEP-DIGEST.pt`; DIGEST is the start of the sha256 of its bytes, so that a truncated or
altered file is found out by its own name. The serial orders them, for a rolled-back run may save a smaller step later.
"""

import hashlib
import io
import json
import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pipeline.console import say
from pipeline.errors import UserError
from pipeline.whole_files import sha256_of, writing

State = dict[str, Any]
"""Tensors, numbers, strings, None, lists, tuples and dicts of these: what loads with `weights_only=True`."""

_NAME = re.compile(r"(\d{6,})-step-(\d+)-([0-9a-f]{16})\.pt")
_KEPT = 2


class OtherConfigurationError(UserError):
    """What was saved belongs to other settings than those of now."""


class Saved(NamedTuple):
    """A state and the step it was saved after."""

    step: int
    state: State


class _File(NamedTuple):
    serial: int
    digest: str
    path: Path


class Checkpoints:
    """The checkpoints in one folder; the last two are kept, so that one is whole while the next is written."""

    def __init__(self, folder: Path, config_hash: str) -> None:
        self.folder, self.config_hash = folder, config_hash

    def save(self, step: int, state: State) -> Path:
        """Write a state beside the others, then drop all but the newest two."""
        require_plain(state, "state")
        content = io.BytesIO()
        torch.save({"config": self.config_hash, "step": step, "state": state}, content)
        files = self._files()
        serial = files[-1].serial + 1 if files else 0
        digest = hashlib.sha256(content.getbuffer()).hexdigest()[:16]
        path = self.folder / f"{serial:06d}-step-{step}-{digest}.pt"
        with writing(path) as part:
            part.write_bytes(content.getbuffer())
        for file in files[: len(files) - _KEPT + 1]:
            file.path.unlink(missing_ok=True)
        return path

    def latest(self) -> Saved | None:
        """The newest state that is whole; damaged files are named, one of another configuration is an error."""
        for file in reversed(self._files()):
            record = _read(file)
            if record is None:
                say(f"the checkpoint {file.path} is damaged; the one before it, if any, is used")
            elif record["config"] != self.config_hash:
                raise OtherConfigurationError(
                    f"the checkpoint {file.path} was saved under another configuration; restore that one to go on, "
                    "use another --run, or run the stage with --force to start anew"
                )
            else:
                return Saved(record["step"], record["state"])
        return None

    def _files(self) -> list[_File]:
        matches = [(_NAME.fullmatch(path.name), path) for path in self.folder.glob("*.pt")]
        return sorted(_File(int(match[1]), match[3], path) for match, path in matches if match)


def hash_of(record: object) -> str:
    """The identity of a configuration: sha256 of its JSON."""
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def hash_state(checkpoints: Path) -> str | None:
    """The identity of the state of a stage under way: its files by name, most of which hold a hash, and size."""
    files = sorted((str(one.relative_to(checkpoints)), one.stat().st_size) for one in checkpoints.rglob("*.*"))
    return hash_of(files) if files else None


def _read(file: _File) -> dict[str, Any] | None:
    """What a file holds, or None if it is not what was written."""
    try:
        if sha256_of(file.path)[:16] != file.digest:
            return None
        record = torch.load(file.path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, ValueError, pickle.UnpicklingError):
        return None
    return record if isinstance(record, dict) and {"config", "step", "state"} <= set(record) else None


def require_plain(value: object, where: str) -> None:
    """Refuse now what `weights_only=True` would refuse when it is too late."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            require_plain(key, f"a key of {where}")
            require_plain(item, f"{where}[{key!r}]")
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            require_plain(item, f"{where}[{index}]")
    elif type(value) not in (bool, int, float, str, type(None)) and not isinstance(value, Tensor):
        raise TypeError(f"{where} is a {type(value).__name__}, which a checkpoint cannot hold")
