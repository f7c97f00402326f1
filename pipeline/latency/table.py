"""Finding the latency table of a device and a space."""

from pathlib import Path

from pipeline.artifacts.latency_table import LatencyTable
from pipeline.errors import UserError
from pipeline.fingerprint import Fingerprint, describe_differences


def table_name(fingerprint: Fingerprint, space: str) -> str:
    """The file a table is kept in."""
    return f"{fingerprint.slug}__{space}.json"


def readable_table(path: Path) -> LatencyTable | None:
    """The table in a file; None where there is none, or one that is of no use."""
    try:
        return LatencyTable.read(path) if path.exists() else None
    except UserError:
        return None


def find_table(
    folder: Path,
    here: Fingerprint,
    space: str,
    path: Path | None = None,
    allow_mismatch: bool = False,
) -> LatencyTable:
    """The table for this device and space, or the one at `path`; a table of another device is refused.

    The differences are named; `allow_mismatch` takes the table all the same.
    """
    path = path or folder / table_name(here, space)
    if not path.exists():
        raise UserError(f"there is no latency table {path} for this device; run `pipeline profile`")
    table = LatencyTable.read(path)
    if table.space != space:
        raise UserError(f"{path} is a table of the space {table.space!r}, not {space!r}; run `pipeline profile`")
    differences = describe_differences(table.fingerprint, here)
    if differences and not allow_mismatch:
        raise UserError(
            f"{path} was measured elsewhere ({'; '.join(differences)}); "
            "run `pipeline profile`, or pass --allow-mismatch"
        )
    return table
