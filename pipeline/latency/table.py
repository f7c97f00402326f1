"""Latency tables: JSON files that say what was measured, on what, and how far it can be trusted."""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipeline.errors import UserError
from pipeline.latency.fingerprint import Fingerprint, describe_differences
from pipeline.rundir import write_json
from pipeline.space.skeleton import Skeleton

SCHEMA_VERSION = 1
_MAX_FILE_BYTES = 50_000_000

Precision = Literal["fp32", "int8"]
PRECISIONS: tuple[Precision, ...] = ("fp32", "int8")
Milliseconds = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Ratio = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SiteTime(_Record):
    """One site: its time, the interquartile range of a single call, and how many calls it rests on."""

    p50_ms: Milliseconds
    spread_ms: Milliseconds
    count: int


class NetworkTime(_Record):
    """One whole network: wall clock."""

    genotype: dict[str, Any]
    p50_ms: Milliseconds
    p95_ms: Milliseconds
    p99_ms: Milliseconds


class Calibration(_Record):
    """r = b + Σ κ_g · s_g over groups g of operations; a group without a correction has the common κ.

    `merged` says whether the runtime computes equal operations once (see `pipeline.latency.executed`).
    `interval` is the relative half-width of the 95 % prediction interval; the ratios are p95/p50 and p99/p50 of whole
    networks.
    """

    kappa: Ratio
    b_ms: Number
    corrections: dict[str, Ratio]
    merged: bool
    interval: Ratio
    p95_ratio: Ratio
    p99_ratio: Ratio


class Validation(_Record):
    """How the prediction did on networks outside the fit, with 95 % bootstrap intervals."""

    networks: int
    mape: Ratio
    mape_interval: tuple[Ratio, Ratio]
    within_10: Ratio
    within_10_interval: tuple[Ratio, Ratio]
    kendall_tau: Number
    kendall_tau_interval: tuple[Number, Number]
    passed: bool


class SkeletonEntry(_Record):
    """A skeleton that was calibrated: the networks that were timed, and what follows from them."""

    skeleton: dict[str, Any]
    calibration: Calibration
    validation: Validation | None
    calibration_networks: list[NetworkTime]
    validation_networks: list[NetworkTime]


class Column(_Record):
    """All that was measured at one precision. `sentinel_ms` is the sentinel at the machine's quiet speed."""

    sentinel_ms: Milliseconds
    noise_floor: Ratio
    sites: dict[str, SiteTime]
    skeletons: list[SkeletonEntry]

    def entry(self, skeleton: Skeleton) -> SkeletonEntry | None:
        """What is known about networks around the skeleton."""
        wanted = asdict(skeleton)
        return next((entry for entry in self.skeletons if entry.skeleton == wanted), None)


class LatencyTable(_Record):
    """A table of one space on one device; its file also holds the sha256 of all this, so that an edit is noticed."""

    schema_version: int
    space: str
    fingerprint: Fingerprint
    measured: str
    precisions: dict[Precision, Column]

    def column(self, precision: Precision) -> Column:
        if precision not in self.precisions:
            raise UserError(
                f"the latency table has no {precision} column; run `pipeline profile --precision {precision}`"
            )
        return self.precisions[precision]


def table_name(fingerprint: Fingerprint, space: str) -> str:
    """The file a table is kept in."""
    return f"{fingerprint.slug}__{space}.json"


def write_table(path: Path, table: LatencyTable) -> None:
    record = table.model_dump(mode="json")
    write_json(path, {**record, "sha256": _content_hash(record)})


def _content_hash(record: dict[str, Any]) -> str:
    text = json.dumps(record, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def read_table(path: Path) -> LatencyTable:
    """A table as `write_table` wrote it; truncated, edited or foreign files are refused with the reason."""
    record = _read_record(path)
    version = record.get("schema_version")
    if version != SCHEMA_VERSION:
        raise UserError(
            f"{path} has schema version {version!r}, this program reads {SCHEMA_VERSION}; run `pipeline profile` again"
        )
    expected = record.pop("sha256", None)
    try:
        table = LatencyTable.model_validate(record)
    except ValidationError as error:
        detail = error.errors()[0]
        place = ".".join(str(part) for part in detail["loc"])
        raise UserError(f"{path} is not a valid latency table: {place}: {detail['msg']}; profile again") from None
    if expected != _content_hash(record):
        raise UserError(f"{path} was changed after it was measured (its sha256 does not match); profile again")
    return table


def _read_record(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_FILE_BYTES + 1)
        record = json.loads(content) if len(content) <= _MAX_FILE_BYTES else None
    except OSError as error:
        raise UserError(f"cannot read the latency table {path}: {error.strerror}; run `pipeline profile`") from None
    except (ValueError, RecursionError):
        raise UserError(f"{path} is damaged: it is not JSON; run `pipeline profile` again") from None
    if not isinstance(record, dict):
        raise UserError(f"{path} is not a latency table; run `pipeline profile`")
    return record


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
    table = read_table(path)
    if table.space != space:
        raise UserError(f"{path} is a table of the space {table.space!r}, not {space!r}; run `pipeline profile`")
    differences = describe_differences(table.fingerprint, here)
    if differences and not allow_mismatch:
        raise UserError(
            f"{path} was measured elsewhere ({'; '.join(differences)}); "
            "run `pipeline profile`, or pass --allow-mismatch"
        )
    return table
