"""Genotype files that are wrong: one sentence each, exit code 2."""

import copy
import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import UserError
from pipeline.space.genotype import genotype_from_record
from pipeline.space.genotype_file import read_genotype, read_genotype_file
from pipeline.space.skeleton import Skeleton
from tests.conftest import DARTS_V2_RECORD


def put(cell: str, pair: int, field: int, value: object) -> Callable[[dict[str, Any]], object]:
    return lambda record: record[cell][pair].__setitem__(field, value)


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        pytest.param(put("normal", 0, 0, "conv_9x9"), "conv_9x9", id="unknown operation"),
        pytest.param(put("normal", 0, 0, "none"), "'none'", id="none chosen"),
        pytest.param(put("normal", 0, 1, 2), "node 0", id="forward edge"),
        pytest.param(put("normal", 0, 1, -1), "node 0", id="negative source"),
        pytest.param(put("normal", 0, 1, "0"), "node 0", id="source is text"),
        pytest.param(put("normal", 1, 1, 0), "different inputs", id="same input twice"),
        pytest.param(lambda r: r.update(normal=r["normal"][:6]), "6 pairs", id="missing node"),
        pytest.param(lambda r: r.pop("reduce"), "reduce", id="missing cell"),
        pytest.param(lambda r: r.update(space="nasbench201"), "nasbench201", id="wrong space"),
        pytest.param(lambda r: r.update(space="phone"), "phone", id="unknown space"),
        pytest.param(lambda r: r.pop("space"), "space", id="no space"),
        pytest.param(lambda r: r.update(reduce=[1, 2, 3]), "genotype", id="pairs are numbers"),
        pytest.param(lambda r: r.update(reduce=None), "genotype", id="cell is null"),
    ],
)
def test_bad_genotypes(spoil: Callable[[dict[str, Any]], object], named: str, tmp_path: Path) -> None:
    record = copy.deepcopy(DARTS_V2_RECORD)
    spoil(record)
    path = tmp_path / "genotype.json"
    path.write_text(json.dumps(record))
    with pytest.raises(UserError, match=named) as caught:
        read_genotype(path)
    assert caught.value.exit_code == 2


def test_a_list_is_no_genotype() -> None:
    with pytest.raises(UserError, match="expected an object"):
        genotype_from_record([DARTS_V2_RECORD])


@pytest.mark.parametrize("content", [b"", os.urandom(200), b"[" * 100_000, b"{" + b" " * 2_000_000 + b"}"])
def test_bad_bytes(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "g.json").write_bytes(content)
    with pytest.raises(UserError, match=r"g\.json"):
        read_genotype(tmp_path / "g.json")


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file"):
        read_genotype(tmp_path / "nothing.json")


@pytest.mark.parametrize(
    "cell",
    [
        "|nor_conv_3x3~0|+|nor_conv_3x3~0|",
        "|nor_conv_3x3~0|+|nor_conv_3x3~0|none~1|+|none~0|none~1|none~3|",
        "nonsense",
        "",
        5,
    ],
)
def test_bad_nasbench201_cells(cell: object) -> None:
    with pytest.raises(UserError):
        genotype_from_record({"space": "nasbench201", "cell": cell})


@pytest.mark.parametrize(
    ("skeleton", "named"),
    [
        ({}, "not a skeleton"),
        ("big", "not a skeleton"),
        ([1, 2], "not a skeleton"),
        ({"cells": 0}, "cells must be 1 to 500"),
        ({"channels": 4.5}, "not a skeleton"),
        ({"channels": True}, "not a skeleton"),
        ({"stem": "phone"}, "not a skeleton"),
        ({"resolution": 30}, "cannot be halved"),
        ({"space": "nasbench201"}, "is of the space 'nasbench201'"),
        ({"space": "nowhere"}, "nowhere"),
    ],
)
def test_a_skeleton_that_cannot_be_is_refused_with_its_file(skeleton: object, named: str, tmp_path: Path) -> None:
    """Also by those who take the genotype alone: whoever wrote the file meant something by it."""
    sound = asdict(Skeleton("darts", 8, 16, 32, 10))
    changed = {**sound, **skeleton} if isinstance(skeleton, dict) and skeleton else skeleton
    path = tmp_path / "g.json"
    path.write_text(json.dumps({**DARTS_V2_RECORD, "skeleton": changed}))
    with pytest.raises(UserError, match=rf"g\.json: its skeleton .*{named}"):
        read_genotype(path)
    path.write_text(json.dumps({**DARTS_V2_RECORD, "skeleton": sound}))
    assert read_genotype_file(path).skeleton == Skeleton("darts", 8, 16, 32, 10)
    path.write_text(json.dumps({**DARTS_V2_RECORD, "skeleton": None}))
    assert read_genotype_file(path).skeleton is None
