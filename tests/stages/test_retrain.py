"""The retrain stage from a run on disk: what it leaves, that it repeats to the byte, and transfer with a fake clock."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from pipeline.artifacts.certificate import Certificate
from pipeline.artifacts.mistakes import Mistakes
from pipeline.artifacts.network import ChosenNetwork
from pipeline.artifacts.trained import Trained
from pipeline.config import ComputeConfig, Config, DataConfig, RetrainConfig, TargetConfig
from pipeline.errors import PromiseBroken, UserError
from pipeline.latency.budget_rule import Measured
from pipeline.presets import preset
from pipeline.rundir import RunDir
from pipeline.space.genotype import Genotype, genotype_from_record
from pipeline.stages import retrain
from pipeline.stages.context import Context
from pipeline.stages.transfer import transfer
from pipeline.whole_files import write_json
from tests.conftest import DARTS_V2_RECORD


def make_context(project: Path, **settings: Any) -> Context:
    recipe = {"epochs": 2, "batch_size": 64, "lr": 0.1, "precision": "float32", "ema": 0.9, **settings}
    config = Config(
        data=DataConfig(resolution=8, test_share=0.7),
        compute=ComputeConfig(threads=1, device="cpu"),
        target=TargetConfig(cells=3, channels=4, budget_ms=1.0),
        retrain=RetrainConfig(**recipe),
    )
    return Context(config, RunDir(project, "demo"))


def choose(context: Context) -> Context:
    """The files that discretize leaves."""
    genotype = genotype_from_record(DARTS_V2_RECORD)
    context.write(ChosenNetwork(genotype=genotype, skeleton=context.target_skeleton))
    return context


def test_weights_metrics_and_mistakes_agree(tmp_path: Path) -> None:
    context = choose(make_context(tmp_path, holdout_share=0.1))
    retrain.run(context)
    trained, metrics = context.read(Trained), json.loads(context.run.metrics.read_text())
    images, targets = zip(*(context.data.test[i] for i in range(len(context.data.test))), strict=True)
    pixels, labels = torch.stack(images).float() / 255, torch.tensor(targets)
    mean, std = (torch.tensor(values).view(1, -1, 1, 1) for values in (trained.mean, trained.std))
    with torch.no_grad():
        answers = trained.network((pixels - mean) / std).argmax(1)
    assert metrics["test_accuracy"] == pytest.approx(float((answers == labels).double().mean()))
    assert metrics["weights"] == "averaged, best epoch" and metrics["test_images"] == len(labels)
    assert metrics["train_images"] == pytest.approx(0.9 * len(context.data.train_all), abs=2)
    mistakes = context.read(Mistakes)
    assert mistakes.wrong == int((answers != labels).sum()) > 0
    wrong = {int(context.data.test.indices[i]) for i in (answers != labels).nonzero().flatten().tolist()}
    assert {one.image for one in mistakes.shown} <= wrong
    files = {path.name for path in context.run.weights.parent.iterdir()}
    assert files >= {"mistakes.json", "history.jsonl", "last.safetensors"}
    assert list(context.run.tensorboard("retrain").iterdir())


@pytest.mark.slow
def test_the_demo_learns_the_digits(tmp_path: Path) -> None:
    config = preset("digits").model_copy(update={"compute": ComputeConfig(threads=1, device="cpu")})
    context = choose(Context(config, RunDir(tmp_path, "demo")))
    retrain.run(context)
    assert json.loads(context.run.metrics.read_text())["test_accuracy"] >= 0.97


def test_the_same_configuration_gives_the_same_bytes(tmp_path: Path) -> None:
    contexts = [choose(make_context(tmp_path / name, epochs=1)) for name in ("a", "b")]
    for context in contexts:
        retrain.run(context)
    first, second = ((context.run.weights.read_bytes(), context.run.metrics.read_bytes()) for context in contexts)
    assert first == second


def test_a_checkpoint_of_another_recipe_is_refused(tmp_path: Path) -> None:
    retrain.run(choose(make_context(tmp_path, epochs=1)))
    with pytest.raises(UserError, match="another configuration"):
        retrain.run(make_context(tmp_path, epochs=2))
    retrain.run(make_context(tmp_path, epochs=1, checkpoint_s=1.0))  # how often to save is no part of the recipe


def test_without_a_selection_the_command_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="pipeline discretize"):
        retrain.run(make_context(tmp_path))


class Clock:
    """Measurements as given, one after the other."""

    def __init__(self, *measured: Measured) -> None:
        self.left = list(measured)

    def __call__(self, skeleton: object, genotype: Genotype) -> Measured:
        return self.left.pop(0)


GOOD, NOISY, SLOW = Measured(0.9, 1.1, 1.2, 0.01), Measured(0.9, 1.1, 1.2, 0.3), Measured(1.1, 1.2, 1.3, 0.01)


def transfer_context(project: Path) -> Context:
    write_json(project / "found.json", DARTS_V2_RECORD)
    return make_context(project, genotype="found.json")


def test_a_transferred_genotype_gets_its_own_certificate(tmp_path: Path) -> None:
    context = transfer_context(tmp_path)
    context.run.selection.parent.mkdir(parents=True)
    context.run.selection.write_text("that of another network")
    transfer(context, Clock(NOISY, GOOD))
    network, certificate = context.read(ChosenNetwork), context.read(Certificate)
    assert network.is_of(context.target_skeleton, genotype_from_record(DARTS_V2_RECORD))
    assert certificate.require_of(network).latency_ms.model_dump() == {
        "p50": 0.9,
        "p95": 1.1,
        "p99": 1.2,
        "raw_p50": None,
    }
    assert certificate.predicted_ms is None and not certificate.provisional
    assert not context.run.selection.exists()


@pytest.mark.parametrize(("clock", "match"), [(Clock(SLOW), "over the budget"), (Clock(*[NOISY] * 6), "noisy")])
def test_a_transferred_genotype_that_cannot_be_certified_is_refused(tmp_path: Path, clock: Clock, match: str) -> None:
    context = transfer_context(tmp_path)
    with pytest.raises(PromiseBroken, match=match):
        transfer(context, clock)
    assert not context.run.genotype.exists() and not context.run.certificate.exists()


@pytest.mark.parametrize(
    ("data", "match"),
    [
        ({"resolution": 16}, "16 pixels a side, the chosen network is for 8"),
        ({"resolution": 8, "colour": True}, "3 channels, the chosen network is for 1"),
    ],
)
def test_other_data_than_the_network_was_chosen_for_is_refused(
    tmp_path: Path, data: dict[str, Any], match: str
) -> None:
    context = choose(make_context(tmp_path))
    other = Context(context.config.model_copy(update={"data": DataConfig(**data)}), context.run)
    with pytest.raises(UserError, match=match):
        retrain.run(other)
