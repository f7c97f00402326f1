import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from pipeline.artifacts.trained import Trained
from pipeline.errors import UserError
from pipeline.space.network import Network
from pipeline.space.skeleton import Skeleton

LABELS = ("a, 'b'", 'x\n"y"', "猫")
SKELETON = Skeleton("darts", 3, 4, 16, 3, 2)


@pytest.fixture
def network(darts_v2):
    torch.manual_seed(0)
    return Network(SKELETON, darts_v2, auxiliary=True).to(memory_format=torch.channels_last)


@pytest.fixture
def saved(network, tmp_path: Path) -> Path:
    Trained(network, (0.1, 0.2), (0.3, 0.4), LABELS).write(tmp_path / "weights.safetensors")
    return tmp_path / "weights.safetensors"


def test_everything_but_the_auxiliary_head_comes_back(network, saved):
    trained = Trained.read(saved)
    assert (trained.mean, trained.std, trained.labels) == ((0.1, 0.2), (0.3, 0.4), LABELS)
    assert trained.network.skeleton == SKELETON
    assert trained.network.genotype == network.genotype
    assert trained.network.auxiliary is None and not trained.network.training
    kept = {name: value for name, value in network.state_dict().items() if not name.startswith("auxiliary.")}
    assert kept.keys() == trained.network.state_dict().keys()
    assert all(torch.equal(value, trained.network.state_dict()[name]) for name, value in kept.items())


def test_same_weights_same_bytes(network, saved, tmp_path):
    Trained(network, (0.1, 0.2), (0.3, 0.4), LABELS).write(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == saved.read_bytes()


@pytest.mark.parametrize(
    ("mean", "std", "labels"),
    [
        ((0.1,), (0.3, 0.4), LABELS),
        ((0.1, 0.2), (0.3, 0.0), LABELS),
        ((0.1, float("nan")), (0.3, 0.4), LABELS),
        ((0.1, 0.2), (0.3, 0.4), LABELS[:2]),
    ],
)
def test_what_does_not_fit_the_network_is_not_saved(network, tmp_path, mean, std, labels):
    with pytest.raises(ValueError, match=r"one per|greater than 0|finite"):
        Trained(network, mean, std, labels).write(tmp_path / "weights.safetensors")
    assert not list(tmp_path.iterdir())


def test_missing_file_names_the_command(tmp_path):
    with pytest.raises(UserError, match="pipeline retrain"):
        Trained.read(tmp_path / "weights.safetensors")


def test_damaged_and_foreign_files_are_refused_in_one_sentence(saved):
    class Harmful:
        def __reduce__(self):
            return pytest.fail, ("something in the file was executed",)

    whole = saved.read_bytes()
    for content in (b"", whole[:5], whole[: len(whole) // 2], b"\xff" * 64, pickle.dumps(Harmful())):
        saved.write_bytes(content)
        with pytest.raises(UserError, match="retrain"):
            Trained.read(saved)


def _rewrite(path: Path, tensors, record) -> None:
    save_file(tensors, path, {"trained": json.dumps(record)} if record is not None else None)


def test_weights_of_another_network_are_refused(saved, network):
    from safetensors import safe_open

    with safe_open(saved, "pt") as file:
        record = json.loads(file.metadata()["trained"])
    tensors = load_file(saved)
    damaged: list[Any] = [
        {**record, "skeleton": {**record["skeleton"], "channels": 6}},
        {**record, "skeleton": {**record["skeleton"], "depth": 1}},
        {**record, "skeleton": {**record["skeleton"], "cells": "3"}},
        {**record, "schema": 99},
        {**record, "mean": 3},
        {**record, "genotype": {"space": "darts"}},
        [],
        None,
    ]
    for broken in damaged:
        _rewrite(saved, tensors, broken)
        with pytest.raises(UserError):
            Trained.read(saved)
    name = "parts.0.0.weight"
    _rewrite(saved, {key: value for key, value in tensors.items() if key != name}, record)
    with pytest.raises(UserError, match="not those of the network"):
        Trained.read(saved)
