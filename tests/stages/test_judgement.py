"""Short trainings of a run: which weights they begin with, and what tells them from others."""

from pathlib import Path
from typing import Any

import pytest
import torch

from pipeline.artifacts.alphas import SupernetWeights
from pipeline.artifacts.judged_networks import JudgedNetworks
from pipeline.selection.pool import feasible_networks
from pipeline.selection.short_training import trial_skeleton
from pipeline.space.spaces.darts import DARTS
from pipeline.space.supernet import Supernet
from pipeline.stages.context import Context
from pipeline.stages.findings import findings_of
from pipeline.stages.judgement import ShortTraining, make_training
from tests.stages.made_search import make_context

CPU = torch.device("cpu")
SMALL: dict[str, Any] = {
    "data": {"validation_share": 0.03, "augment": "none"},
    "search": {"cells": 3, "channels": 4},
    "discretize": {"evidence_minutes": 1.0, "evidence_steps": 1},
}


def training_of(context: Context) -> ShortTraining:
    return make_training(context, findings_of(context).start, CPU)


def keep_supernet(context: Context, seed: int) -> Supernet:
    torch.manual_seed(seed)
    supernet = Supernet(context.search_skeleton)
    context.write(SupernetWeights(supernet.state_dict()))
    return supernet


def test_they_begin_with_the_weights_of_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = make_context(tmp_path, **SMALL)
    scratch = training_of(context)
    assert scratch.supernet is None and scratch.skeleton == trial_skeleton(context.search_skeleton)
    supernet, asked = keep_supernet(context, 1), list[Any]()
    warm = training_of(context)
    assert warm.skeleton == supernet.skeleton == context.search_skeleton != scratch.skeleton

    def train(*arguments: Any) -> float:
        asked.append(arguments)
        return 1.0

    monkeypatch.setattr("pipeline.stages.judgement.train_shortly", train)
    (network,) = feasible_networks(DARTS, (), 1, 0)
    assert scratch.loss_of(network) == warm.loss_of(network) == 1.0
    (*_, without), (*_, taken) = asked
    assert without is None
    torch.testing.assert_close(taken.state_dict(), supernet.state_dict(), rtol=0, atol=0)


@pytest.mark.parametrize(("steps_per_operation", "inherits"), [(1999, False), (2000, True), (None, True)])
def test_the_weights_of_a_short_search_are_no_start(
    tmp_path: Path, steps_per_operation: int | None, inherits: bool
) -> None:
    context = make_context(tmp_path, **SMALL)
    keep_supernet(context, 1)
    context.write(JudgedNetworks(DARTS, [], [], steps_per_operation))
    assert (training_of(context).supernet is not None) is inherits


def test_losses_of_another_supernet_are_not_read_back(tmp_path: Path) -> None:
    context = make_context(tmp_path, **SMALL)
    identities = [training_of(context).identity()]
    for seed in (1, 2, 2):
        keep_supernet(context, seed)
        identities.append(training_of(context).identity())
    assert identities[2] == identities[3]
    assert len({str(one) for one in identities}) == 3
