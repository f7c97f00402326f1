"""Files that appear whole or not at all, and how files are read that may be anything."""

import errno
import fcntl
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pipeline.errors import UserError

_STALE_S = 3600.0


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place, synced to disk, when the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, part = _claim_part(path)
    try:
        yield part
        part.chmod(0o666 & ~_umask())
        _sync(part)
        part.replace(path)
        _sync(path.parent)
    finally:
        part.unlink(missing_ok=True)
        os.close(handle)


def _claim_part(path: Path) -> tuple[int, Path]:
    """A new file beside `path`, locked for as long as its handle is open: the system lets go when the writer dies."""
    while True:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        with suppress(OSError):  # where the disk knows no locks, its age tells
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            return handle, Path(name)
        os.close(handle)  # swept before it was locked


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


def sweep_parts(folder: Path) -> None:
    """Remove what writers that were killed left half-written; who still writes holds a lock on its part."""
    for part in folder.rglob(".*.part"):
        with suppress(OSError):
            handle = os.open(part, os.O_RDONLY | os.O_NONBLOCK)
            try:
                if _is_abandoned(handle):
                    part.unlink()
            finally:
                os.close(handle)


def _is_abandoned(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # no locks on this disk: older than any file takes to write
        return time.time() - os.fstat(handle).st_mtime >= _STALE_S
    return True


def write_text(path: Path, text: str) -> None:
    with writing(path) as part:
        part.write_text(text, encoding="utf-8")


def write_json(path: Path, value: object) -> None:
    """The value as indented JSON; NaN and infinities are refused, for JSON has none."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """A JSON file of ours."""
    try:
        return json.loads(read_regular(path))
    except (ValueError, RecursionError):
        raise UserError(f"{path} is damaged: it is not JSON; delete it and run the stage that makes it") from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None


def read_regular(path: Path) -> bytes:
    """What a file holds; a pipe in its place would be waited for, and a device never ends: both are errors here."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is not a file", str(path))
    return path.read_bytes()


def read_given(path: Path, at_most_mb: int) -> bytes:
    """What a file holds that a user has named; what is none, cannot be read or is too large is refused in words."""
    if path.exists() and not path.is_file() and not path.is_dir():  # a pipe would be waited for
        raise UserError(f"cannot read {path}: it is not a file")
    at_most = at_most_mb * 1_000_000
    try:
        with path.open("rb") as file:
            content = file.read(at_most + 1)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    if len(content) > at_most:
        raise UserError(f"{path} is larger than {at_most_mb} MB")
    return content


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
