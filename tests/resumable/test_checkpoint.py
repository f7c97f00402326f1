"""Checkpoints: whole, verified, at most two, and only of the configuration that asks."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pipeline.errors import UserError
from pipeline.resumable.checkpoint import Checkpoints, hash_of

STATE: dict[str, Any] = {
    "weights": {"a": torch.arange(6.0).view(2, 3)},
    "lr": 0.1,
    "list": [1, None, "x"],
    "betas": (0.9, 0.99),
}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_newest_state_comes_back_to_the_bit_and_two_are_kept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "c", "hash")
    assert checkpoints.latest() is None
    for step in (3, 7, 5):  # a rolled-back run saves a smaller step later
        checkpoints.save(step, {**STATE, "step": step})
    saved = checkpoints.latest()
    assert saved is not None and saved.step == saved.state["step"] == 5
    assert torch.equal(saved.state["weights"]["a"], STATE["weights"]["a"])
    assert saved.state["list"] == [1, None, "x"] and saved.state["betas"] == (0.9, 0.99)
    assert [name.split("-")[2] for name in names(tmp_path / "c")] == ["7", "5"]


FIVE, SIX = struct.pack("<f", 5.0), struct.pack("<f", 6.0)


@pytest.mark.parametrize("damage", [lambda b: b[:-7], lambda b: b.replace(FIVE, SIX), lambda b: b""])
def test_a_damaged_newest_is_named_and_the_previous_one_used(tmp_path: Path, damage, capsys) -> None:
    checkpoints = Checkpoints(tmp_path, "hash")
    checkpoints.save(1, STATE)
    newest = checkpoints.save(2, STATE)
    whole = newest.read_bytes()
    newest.write_bytes(damage(whole))
    assert newest.read_bytes() != whole
    saved = checkpoints.latest()
    assert saved is not None and saved.step == 1
    assert newest.name in capsys.readouterr().err.replace("\n", "")


def test_a_half_written_file_is_not_a_checkpoint(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, "hash")
    whole = checkpoints.save(1, STATE)
    (tmp_path / f".{whole.name.replace('000000', '000001')}.abc.part").write_bytes(whole.read_bytes()[:100])
    saved = checkpoints.latest()
    assert saved is not None and saved.step == 1


def test_a_checkpoint_of_another_configuration_is_refused_by_name(tmp_path: Path) -> None:
    path = Checkpoints(tmp_path, hash_of({"lr": 0.1})).save(1, STATE)
    with pytest.raises(UserError, match=path.name):
        Checkpoints(tmp_path, hash_of({"lr": 0.2})).latest()


def test_only_what_loads_again_is_saved(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"state\['n'\]\[0\] is a float64"):
        Checkpoints(tmp_path, "hash").save(1, {"n": [np.float64(1.0)]})
    assert not list(tmp_path.iterdir())
