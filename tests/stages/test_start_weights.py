"""Where retrain starts: what each setting puts into the network, and what is refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from pipeline.artifacts.alphas import SupernetWeights
from pipeline.artifacts.files import StartWeights
from pipeline.artifacts.metrics import Metrics
from pipeline.artifacts.network import ChosenNetwork
from pipeline.artifacts.trained import Trained
from pipeline.errors import UserError
from pipeline.rundir import RunDir
from pipeline.runner.artifacts import hash_of
from pipeline.search_config import SearchConfig
from pipeline.space.genotype import genotype_from_record
from pipeline.space.supernet import Supernet
from pipeline.stages import retrain
from pipeline.stages.context import Context
from tests.conftest import DARTS_V2_RECORD
from tests.stages.test_retrain import choose, make_context
from tests.training.material import CPU


def searched(project: Path, channels: int = 4, **settings: Any) -> Context:
    """A run whose search left a supernet of three cells."""
    context = choose(make_context(project, **{"epochs": 1, "start": "supernet", **settings}))
    config = context.config.model_copy(update={"search": SearchConfig(cells=3, channels=channels)})
    context = replace(context, config=config)
    torch.manual_seed(11)
    context.write(SupernetWeights(Supernet(context.search_skeleton).state_dict()))
    return context


def test_random_weights_depend_on_the_seed_alone(tmp_path: Path) -> None:
    context = choose(make_context(tmp_path))
    network = retrain.make_network(context, context.read(ChosenNetwork))
    prepared = retrain.prepare(context, CPU)
    assert all(torch.equal(a, b) for a, b in zip(network.parameters(), prepared.network.parameters(), strict=True))
    assert prepared.start == "random" and hash_of(context, StartWeights) is None


def test_the_supernets_weights_are_taken_over(tmp_path: Path) -> None:
    context = searched(tmp_path)
    prepared = retrain.prepare(context, CPU)
    head = context.read(SupernetWeights).state["head.2.weight"]
    assert torch.equal(prepared.network.head.state_dict()["2.weight"], head)
    assert prepared.start.startswith("supernet, ")
    retrain.run(context)
    assert context.read(Metrics).start == prepared.start
    assert hash_of(context, StartWeights) is not None


def test_other_start_weights_are_another_training(tmp_path: Path) -> None:
    context = searched(tmp_path)
    before = retrain.prepare(context, CPU).job.config_hash
    torch.manual_seed(12)
    context.write(SupernetWeights(Supernet(context.search_skeleton).state_dict()))
    random = replace(
        context, config=context.config.model_copy(update={"retrain": make_context(tmp_path).config.retrain})
    )
    hashes = {before, retrain.prepare(context, CPU).job.config_hash, retrain.prepare(random, CPU).job.config_hash}
    assert len(hashes) == 3


def elsewhere(context: Context, name: str) -> Context:
    return replace(context, run=RunDir(context.run.project, name))


def test_another_run_gives_its_weights(tmp_path: Path) -> None:
    other = elsewhere(make_context(tmp_path, epochs=1), "other")
    retrain.run(choose(other))
    context = choose(make_context(tmp_path, epochs=1, start="run:other"))
    prepared = retrain.prepare(context, CPU)
    theirs = other.read(Trained).network.state_dict()
    ours = prepared.network.state_dict()
    assert all(torch.equal(ours[name], value) for name, value in theirs.items())
    assert prepared.start == "run:other, 100% of the weights"


BAD: dict[str, tuple[str, str]] = {
    "no such run": (
        "run:nowhere",
        "there is no .*nowhere/retrain/weights.*; run `pipeline retrain --run nowhere",
    ),
    "itself": ("run:demo", "names this run itself"),
    "no name": ("run:../x", "cannot name a run"),
    "other genotype": ("run:mixed", "has another genotype"),
    "other size": ("run:wide", "has 3 cells and 8 channels"),
    "damaged": ("run:torn", "damaged"),
}


@pytest.mark.parametrize("name", BAD)
def test_weights_that_mean_nothing_here_are_refused(tmp_path: Path, name: str) -> None:
    start, match = BAD[name]
    own = choose(make_context(tmp_path, start=start))
    chosen = own.read(ChosenNetwork)
    pool = {"space": "darts", "normal": DARTS_V2_RECORD["reduce"], "reduce": DARTS_V2_RECORD["reduce"]}
    for run, changed in (
        ("mixed", ChosenNetwork(genotype=genotype_from_record(pool), skeleton=chosen.skeleton)),
        ("wide", ChosenNetwork(genotype=chosen.genotype, skeleton=replace(chosen.skeleton, channels=8))),
    ):
        other = elsewhere(own, run)
        data = own.data
        network = retrain.make_network(replace(other, config=make_context(tmp_path, auxiliary=0.0).config), changed)
        other.write(Trained(network, tuple(data.mean), tuple(data.std), data.labels))
    torn = elsewhere(own, "torn").run.weights
    torn.parent.mkdir(parents=True)
    torn.write_bytes(b"torn")
    with pytest.raises(UserError, match=match):
        retrain.run(own)
    assert not own.run.checkpoints("retrain").exists()


def test_a_supernet_of_other_channels_or_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"the supernet has 8 channels and the network 4.*\[search\] channels = 4"):
        retrain.run(searched(tmp_path, channels=8))
    with pytest.raises(UserError, match=r"there is no .*run `pipeline search --run demo` first"):
        retrain.run(choose(make_context(tmp_path / "empty", start="supernet")))
