"""Every stage of one small run on a fake device, watched: what it opens is what it declares."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from pipeline.artifacts.artifact import Artifact
from pipeline.artifacts.files import GivenGenotype, GuideImages, Images, TeacherFile
from pipeline.artifacts.network import ChosenNetwork
from pipeline.artifacts.trained import Trained
from pipeline.autodo_config import AutodoConfig
from pipeline.config_file import make_config
from pipeline.rundir import RunDir
from pipeline.runner import execution
from pipeline.runner.artifacts import path_of
from pipeline.runner.execution import changes_since, run_stage
from pipeline.space.network import Network
from pipeline.stages import STAGES, TEACH, TRANSFER, Stage
from pipeline.stages.context import Context
from tests.latency.fakes import FakeDevice
from tests.stages.made_teachers import SMALLEST, write_timm

SMALL = {
    "data": {"resolution": 8, "test_share": 0.8, "augment": "none"},
    "compute": {"threads": 1, "device": "cpu"},
    "target": {"space": "nasbench201", "cells": 1, "channels": 4, "budget_ms": 1e6},
    "profile": {"rounds": 1, "copies": 2, "calibration_networks": 3, "validate_networks": 0},
    "search": {"cells": 1, "channels": 4, "epochs": 1, "batch_size": 32, "inner_steps": 4, "allow_unvalidated": True},
    "discretize": {"evidence_minutes": 1e-6, "evidence_steps": 1, "evaluations": 4},
    "retrain": {"epochs": 2, "precision": "float32", "auxiliary": 0.0, "drop_path": 0.0, "start": "run:other"},
    "teach": {"epochs": 1, "resolution": 32},
    "autodo": {"learn": "weights+labels", "guide": "guide.npz", "start_epoch": 1},
}


@dataclass
class Trace:
    """Files that Python opened for reading while it was on."""

    on: bool = False
    opened: set[Path] = field(default_factory=set)

    def hook(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.on and event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
            writes = isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
            if not writes:
                self.opened.add(Path(os.fsdecode(arguments[0])).absolute())

    @contextmanager
    def watching(self) -> Iterator[set[Path]]:
        self.on, self.opened = True, set()
        try:
            yield self.opened
        finally:
            self.on = False


TRACE = Trace()
sys.addaudithook(TRACE.hook)  # for good: there is no way to take one away


@dataclass(frozen=True)
class Flow:
    """What a stage opened among artifacts, and what else of the project."""

    artifacts: set[type[Artifact]]
    others: set[Path]

    def undeclared(self, stage: Stage) -> set[object]:
        """What it read without saying so; what it left itself and its own working files are its own business."""
        return {*self.artifacts.difference(stage.reads, stage.writes), *self.others}


ALL = (*STAGES, TRANSFER, TEACH)
KINDS = {kind for stage in ALL for kind in (*stage.reads, *stage.writes)} - {Images}
# what retrain reads with a teacher, which excludes learning about images
TAUGHT = replace(STAGES[3], reads=tuple(kind for kind in STAGES[3].reads if kind is not GuideImages))
UNTAUGHT = replace(STAGES[3], reads=tuple(kind for kind in STAGES[3].reads if kind is not TeacherFile))


def trace(context: Context, stage: Stage) -> Flow:
    """The flow of a stage as its own code sees it: what the runner hashes before and after is not counted."""
    places = {path_of(context, kind): kind for kind in KINDS - {GivenGenotype}}
    if context.config.retrain.genotype:
        places[path_of(context, GivenGenotype)] = GivenGenotype
    # one file may be an input of one stage and an output of another
    places |= {path_of(context, kind): kind for kind in (*stage.reads, *stage.writes) if kind is not Images}
    module, found = execution._module(stage), set[Path]()

    def run(context: Context) -> None:
        with TRACE.watching() as opened:
            module.run(context)
        found.update(path for path in opened if path.is_relative_to(context.run.project))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(execution, "_module", lambda _: type("Watched", (), {"run": staticmethod(run)}))
        run_stage(context, stage)
    assert not list(changes_since(context, stage))
    own = [context.run.root / stage.name, context.run.exports.parent, context.run.root / "identity"]
    own += [context.run.tables] if stage.name == "profile" else []
    others = {path for path in found if path not in places and path.is_file()}
    return Flow(
        {places[path] for path in found if path in places},
        {path for path in others if not any(path.is_relative_to(place) for place in own)},
    )


@pytest.fixture(scope="module")
def flows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Flow]:
    context = Context(make_config(SMALL, "the test"), RunDir(tmp_path_factory.mktemp("project"), "small"))
    chosen, pixels = context.run.project / "chosen.json", np.arange(640, dtype=np.uint8).reshape(10, 8, 8)
    np.savez(context.run.project / "guide.npz", x_train=pixels, y_train=np.arange(10))
    retrain = context.config.retrain.model_copy(update={"genotype": chosen.name})
    other = replace(context, config=context.config.model_copy(update={"retrain": retrain}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipeline.latency.onnx_device.OnnxDevice", lambda *_: FakeDevice())
        # the supernet of a short search is not read
        patch.setattr("pipeline.stages.findings.describe_short_search", lambda _: "")
        found = {}
        for stage in STAGES:
            if stage.name == "retrain":
                train_elsewhere(context)
            found[stage.name] = trace(context, stage)
        chosen.write_bytes(context.run.genotype.read_bytes())
        found["transfer"] = trace(other, TRANSFER)
        taught = with_teacher(context)
        return {**found, "teach": trace(taught, TEACH), "taught": trace(taught, STAGES[3])}


def train_elsewhere(context: Context) -> None:
    """Weights of the same network in the run that [retrain] start names."""
    network, data = context.read(ChosenNetwork), context.data
    weights = Trained(Network(network.skeleton, network.genotype), data.mean, data.std, data.labels)
    weights.write(replace(context.run, name="other").weights)


def with_teacher(context: Context) -> Context:
    """The run with a checkpoint of timm as teacher, which must be taught, in the place of a guide."""
    write_timm(context.run.project / "base.safetensors", classes=7, channels=3)
    retrain = context.config.retrain.model_copy(update={"teacher": f"timm:{SMALLEST}@base.safetensors"})
    update = {"retrain": retrain, "autodo": AutodoConfig()}
    return replace(context, config=context.config.model_copy(update=update))


CASES = {"retrain": UNTAUGHT, "taught": TAUGHT}


@pytest.mark.parametrize("name", [*(stage.name for stage in ALL), "taught"])
def test_a_stage_reads_what_it_declares(flows: dict[str, Flow], name: str) -> None:
    stage = CASES.get(name) or next(one for one in ALL if one.name == name)
    assert not flows[name].undeclared(stage)
    assert flows[name].artifacts - set(stage.writes) == set(stage.reads) - {Images}


def test_an_undeclared_read_is_noticed(flows: dict[str, Flow]) -> None:
    for name, flow in flows.items():
        stage = CASES.get(name) or next(one for one in ALL if one.name == name)
        for kind in set(stage.reads) - {Images}:
            forgetful = replace(stage, reads=tuple(one for one in stage.reads if one is not kind))
            assert flow.undeclared(forgetful) == {kind}
