"""compare from a run on disk with a fake clock: the table, going on after a stop, and refusals that change nothing."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.artifacts.comparison import Comparison
from pipeline.artifacts.network import ChosenNetwork
from pipeline.config import ComputeConfig, Config, DataConfig, RetrainConfig, TargetConfig
from pipeline.errors import Interrupted, UserError
from pipeline.latency.target import TargetMachine
from pipeline.resumable.checkpoint import Checkpoints
from pipeline.rivals import contest
from pipeline.rundir import RunDir
from pipeline.space.genotype import genotype_from_record
from pipeline.stages.compare import Order, compare_on
from pipeline.stages.context import Context
from pipeline.training import loop
from tests.artifacts.made import CELL, made_certificate
from tests.latency.fakes import FINGERPRINT, FakeDevice

BUDGET_MS = 1000.0
MACHINE = TargetMachine(FakeDevice())
ORDER = Order(("plain", "random"), 0.0, (0, 1))


@pytest.fixture
def context(tmp_path: Path) -> Context:
    """A run that has chosen its network: nasbench201, three cells of four channels."""
    config = Config(
        data=DataConfig(resolution=8, test_share=0.7, augment="none"),
        compute=ComputeConfig(threads=1, device="cpu"),
        target=TargetConfig(space="nasbench201", cells=3, channels=4, budget_ms=BUDGET_MS),
        retrain=RetrainConfig(epochs=1, batch_size=64, lr=0.1, precision="float32", ema=0.0, auxiliary=0.2),
    )
    made = Context(config, RunDir(tmp_path, "demo"))
    genotype = genotype_from_record({"space": "nasbench201", "cell": CELL})
    network = ChosenNetwork(genotype=genotype, skeleton=made.target_skeleton)
    made.write(network)
    made.write(made_certificate(network, budget_ms=BUDGET_MS))
    return made


def files(context: Context) -> set[Path]:
    return {path.relative_to(context.run.root) for path in context.run.root.rglob("*") if path.is_file()}


def test_all_are_trained_alike_at_the_same_latency(context: Context) -> None:
    found = compare_on(context, ORDER, MACHINE)
    assert context.read(Comparison) == found
    certified, plain, random = found.entrants
    assert [one.kind for one in found.entrants] == ["certified", "rival", "random"]
    assert plain.measured_ms == pytest.approx(certified.measured_ms, rel=0.12)
    assert random.measured_ms <= BUDGET_MS
    assert all(len(one.accuracies) == 2 and one.training_s > 0 for one in found.entrants)
    assert (found.epochs, found.seeds, found.test_images) == (1, [0, 1], len(context.data.test))
    assert found.on_target and found.device == FINGERPRINT and found.train_images == len(context.data.train_all)
    assert certified.params == 2 * certified.params - certified.params > 0
    assert found.sentence and not list(context.run.root.rglob("*.pt"))


def test_a_stopped_comparison_goes_on_where_it_was(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = compare_on(context, ORDER, MACHINE)
    trained: list[str] = []
    train = loop.train

    def watched(model: Any, job: Any) -> Any:
        trained.append(job.history.parent.parent.name)
        if len(trained) == 3:
            raise Interrupted("stopped")
        return train(model, job)

    monkeypatch.setattr(contest, "train", watched)
    again = replace(context, run=RunDir(context.run.project, "again"))
    for kind in ("genotype", "certificate"):
        source, target = getattr(context.run, kind), getattr(again.run, kind)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(source.read_bytes())
    with pytest.raises(Interrupted):
        compare_on(again, ORDER, MACHINE)
    assert not again.run.comparison.exists()
    found = compare_on(again, ORDER, MACHINE)
    assert len(trained) == 7, "six trainings, one of them begun twice"
    assert [one.accuracies for one in found.entrants] == [one.accuracies for one in whole.entrants]
    compare_on(again, ORDER, MACHINE)
    assert len(trained) == 7


def test_a_training_that_was_stopped_under_other_settings_begins_anew(context: Context) -> None:
    place = context.run.comparison.parent / "certified" / "seed0" / "checkpoint" / "last"
    Checkpoints(place, "other settings").save(1, {})
    found = compare_on(context, Order(("plain",), 0.0, (0,)), MACHINE)
    assert len(found.entrants) == 2 and not place.parent.exists()


@pytest.mark.parametrize(
    ("rivals", "message"),
    [
        ((), "--rivals names no network"),
        (("plian",), "timm knows no 'plian'"),
        (("mobilnetv3_small",), "did you mean mobilenetv3_small"),
        (("efficientnet_lite0",), "no rival can be brought to 0.9 ms; the nearest is efficientnet_lite0"),
    ],
)
def test_a_refusal_leaves_no_file(context: Context, rivals: Sequence[str], message: str) -> None:
    before = files(context)
    with pytest.raises(UserError, match=message):
        compare_on(context, Order(tuple(rivals), 0.0, (0,)), MACHINE)
    assert files(context) - before <= {Path(".lock")}


def test_random_networks_are_compared_with_where_no_rival_can_be_matched(context: Context) -> None:
    found = compare_on(context, Order(("efficientnet_lite0", "random"), 0.0, (0,)), MACHINE)
    assert [one.kind for one in found.entrants] == ["certified", "random"]
    assert [one.name for one in found.unmatched] == ["efficientnet_lite0"]


def test_minutes_decide_the_epochs(context: Context) -> None:
    longer = context.config.retrain.model_copy(update={"epochs": 3})
    patient = replace(context, config=context.config.model_copy(update={"retrain": longer}))
    assert compare_on(patient, Order(("plain",), 1e-6, (0,)), MACHINE).epochs == 1
