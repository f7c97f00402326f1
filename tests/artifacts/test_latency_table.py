import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.artifacts.document import digest
from pipeline.artifacts.latency_table import LatencyTable
from pipeline.errors import UserError
from pipeline.latency.table import find_table, table_name
from pipeline.whole_files import write_json
from tests.latency.fakes import FINGERPRINT
from tests.latency.made import SKELETON, made_table


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / table_name(FINGERPRINT, "darts")
    made_table().write(path)
    return path


def change(path: Path, edit: Any, sign: bool) -> None:
    """Edit the file; `sign` makes its hash right again."""
    record = json.loads(path.read_text())
    edit(record)
    record.pop("sha256")
    if sign:
        record["sha256"] = digest(record)
    path.write_text(json.dumps(record))


def test_round_trip(path: Path) -> None:
    table = LatencyTable.read(path)
    assert table == made_table()
    entry = table.column("fp32").entry(SKELETON)
    assert entry is not None and entry.skeleton == asdict(SKELETON)
    assert table.column("fp32").entry(replace(SKELETON, cells=9)) is None


def first_site(record: dict[str, Any]) -> dict[str, Any]:
    site: dict[str, Any] = next(iter(record["precisions"]["fp32"]["sites"].values()))
    return site


def test_an_edit_is_noticed(path: Path) -> None:
    record = json.loads(path.read_text())
    first_site(record)["p50_ms"] *= 0.5
    path.write_text(json.dumps(record))
    with pytest.raises(UserError, match="was altered after it was written"):
        LatencyTable.read(path)


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf, "fast", None])
def test_times_that_are_none_are_refused(path: Path, value: object) -> None:
    record = json.loads(path.read_text())
    first_site(record)["p50_ms"] = value
    path.write_text(json.dumps(record))
    with pytest.raises(UserError, match="p50_ms"):
        LatencyTable.read(path)


def test_other_schemas_are_named(path: Path) -> None:
    change(path, lambda record: record.update(schema_version=99), sign=True)
    with pytest.raises(UserError, match="schema version 99, this program reads 1"):
        LatencyTable.read(path)


@pytest.mark.parametrize("content", [b"", b"[1]", b"{}", b"\x00\xff\xfe" * 99, b"[" * 100_000])
def test_what_is_no_table_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(UserError):
        LatencyTable.read(path)


def test_a_truncated_table_is_refused(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UserError, match="not JSON"):
        LatencyTable.read(path)


def test_unknown_keys_are_refused(path: Path) -> None:
    change(path, lambda record: record.update(colour="red"), sign=True)
    with pytest.raises(UserError, match="colour"):
        LatencyTable.read(path)


def test_found_by_fingerprint_and_space(path: Path) -> None:
    assert find_table(path.parent, FINGERPRINT, "darts") == made_table()
    with pytest.raises(UserError, match="run `pipeline profile`"):
        find_table(path.parent, FINGERPRINT, "nasbench201")
    with pytest.raises(UserError, match="of the space 'darts'"):
        find_table(path.parent, FINGERPRINT, "nasbench201", path)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("threads", 2),
        ("processor", "Fake 2"),
        ("runtime_version", "2.0"),
        ("batch", 8),
        ("cores", 64),
        ("device", "cuda"),
    ],
)
def test_another_device_is_refused_and_the_difference_named(path: Path, field: str, value: Any) -> None:
    here = replace(FINGERPRINT, **{field: value})
    with pytest.raises(UserError, match=f"{field}: .* in the table, {value} here"):
        find_table(path.parent, here, "darts", path)
    assert find_table(path.parent, here, "darts", path, allow_mismatch=True).space == "darts"


def test_a_missing_precision_names_the_command(path: Path) -> None:
    with pytest.raises(UserError, match="--precision int8"):
        LatencyTable.read(path).column("int8")


def test_names_differ_with_device_threads_and_batch() -> None:
    names = {
        table_name(replace(FINGERPRINT, **change), "darts")
        for change in ({}, {"threads": 2}, {"batch": 4}, {"processor": "Fake 2"}, {"device": "cuda"})
    }
    assert len(names) == 5
    assert all("/" not in name and " " not in name for name in names)


def test_nan_is_never_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "x.json", {"p50_ms": math.nan})
