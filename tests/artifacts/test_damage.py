"""Every artifact comes back as it was written, in the same bytes from every process; a damaged one is refused."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import save_file

from pipeline.artifacts.artifact import Typed
from pipeline.artifacts.document import Document
from pipeline.artifacts.labels import Labels
from pipeline.artifacts.latency_table import LatencyTable
from pipeline.artifacts.network import ChosenNetwork
from pipeline.artifacts.tensors import pack, unpack
from pipeline.artifacts.trained import Trained, _Description
from pipeline.errors import UserError
from pipeline.stages import STAGES, TRANSFER
from tests.artifacts.made import MADE, made_certificate

ARTIFACTS = [make() for make in MADE]
each = pytest.mark.parametrize("artifact", ARTIFACTS, ids=lambda artifact: type(artifact).__name__)


def refused(artifact: Typed, path: Path) -> str:
    """The sentence that refuses the file: its name, and the command that makes it anew."""
    command = artifact.maker or "search --force"
    with pytest.raises(UserError) as caught:
        type(artifact).read(path, command)
    sentence = str(caught.value)
    assert caught.value.exit_code == 2
    assert str(path) in sentence and f"run `pipeline {command}` again" in sentence and "\n" not in sentence
    return sentence


def test_every_artifact_that_a_stage_reads_is_here() -> None:
    typed = {kind for stage in (*STAGES, TRANSFER) for kind in (*stage.reads, *stage.writes) if issubclass(kind, Typed)}
    assert typed <= {type(artifact) for artifact in ARTIFACTS}


@each
def test_what_is_read_is_what_was_written(artifact: Typed, tmp_path: Path) -> None:
    artifact.write(tmp_path / "first")
    type(artifact).read(tmp_path / "first").write(tmp_path / "second")
    assert (tmp_path / "second").read_bytes() == (tmp_path / "first").read_bytes()


@each
def test_truncated(artifact: Typed, tmp_path: Path) -> None:
    path = tmp_path / "file"
    artifact.write(path)
    whole = path.read_bytes()
    for length in (0, 1, 9, len(whole) // 2, len(whole) - 2):
        path.write_bytes(whole[:length])
        if not (isinstance(artifact, Labels) and length == 0):  # no classes, no lines
            refused(artifact, path)


def without_a_key(artifact: Typed, content: bytes) -> Iterator[tuple[str, bytes]]:
    if isinstance(artifact, Document):
        record = json.loads(content)
        optional = {name for name, field in type(artifact).model_fields.items() if not field.is_required()}
        for key in set(record) - optional - {artifact.version_key}:
            yield key, json.dumps({name: value for name, value in record.items() if name != key}).encode()
    else:
        tensors, facts = unpack(content)
        for key in set(tensors) if artifact.name != "supernet_weights" else ():
            yield key, pack({name: value for name, value in tensors.items() if name != key}, facts)
        for key in set(facts) - {"schema"}:
            yield key, pack(tensors, {name: value for name, value in facts.items() if name != key})


@each
def test_without_a_key(artifact: Typed, tmp_path: Path) -> None:
    path = tmp_path / "file"
    artifact.write(path)
    if isinstance(artifact, Labels):
        return
    damaged = list(without_a_key(artifact, path.read_bytes()))
    assert damaged or artifact.name == "supernet_weights"  # whose keys are those of a supernet, known when it is built
    for _, content in damaged:
        path.write_bytes(content)
        refused(artifact, path)


@each
def test_a_later_schema(artifact: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    if isinstance(artifact, Labels):
        return
    with monkeypatch.context() as patch:
        patch.setattr(_Description if isinstance(artifact, Trained) else type(artifact), "version", 99)
        artifact.write(path)
    if isinstance(artifact, ChosenNetwork):
        path.write_text(json.dumps({**json.loads(path.read_text()), "schema": 99}))
    assert f"schema version 99, this program reads {type(artifact).version}" in refused(artifact, path)


@each
@pytest.mark.parametrize("content", [b"[1]", b"null", b"[" * 100_000, b"\xff" * 99, b'{"schema": {}}'])
def test_foreign_content(artifact: Typed, content: bytes, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)
    refused(artifact, tmp_path / "file")


@each
def test_missing_and_not_a_file(artifact: Typed, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"there is no .*missing; run `pipeline \w+` first"):
        type(artifact).read(tmp_path / "missing", artifact.maker or "search")
    refused(artifact, tmp_path)
    os.mkfifo(tmp_path / "fifo")
    refused(artifact, tmp_path / "fifo")


def hashes() -> list[str]:
    """Of every artifact, written again and again: safetensors shuffles facts anew at every writing."""
    return [hashlib.sha256(artifact._content()).hexdigest() for artifact in (*ARTIFACTS, *ARTIFACTS, *ARTIFACTS)]


def test_the_same_bytes_from_every_process() -> None:
    code = "from tests.artifacts.test_damage import hashes; print(*hashes())"
    found = set()
    for seed in ("0", "1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        found.add(done.stdout)
    assert found == {" ".join(hashes()) + "\n"}
    assert len(set(hashes())) == len(ARTIFACTS)


def test_one_fact_gives_the_bytes_of_the_library(tmp_path: Path) -> None:
    tensors = {name: value.contiguous() for name, value in unpack(ARTIFACTS[1]._content()).tensors.items()}
    facts = {"trained": json.dumps({"labels": ["猫", '"', "\u2028"]})}
    save_file(tensors, tmp_path / "file", facts)
    assert pack(tensors, facts) == (tmp_path / "file").read_bytes()


def test_a_table_keeps_its_bytes() -> None:
    path = Path(__file__).parents[2] / "latency_tables" / "reference__nasbench201.json"
    assert LatencyTable.read(path)._content() == path.read_bytes()


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"measured_ms": {"p50": 1.1, "p95": 1.2, "p99": 1.3}}, "over the budget"),
        ({"percentile": 95}, "over the budget"),
        ({"fits": False}, "fits"),
        ({"noise_floor": float("inf")}, "noise_floor"),
        ({"predicted_ms": float("nan")}, "predicted_ms"),
    ],
)
def test_a_certificate_is_consistent(change: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        made_certificate(**change)
