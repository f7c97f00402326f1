"""retrain that learns about its images: what it leaves, what an audit leaves, and that its parts are disjoint."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pipeline.artifacts.learned_images import LearnedImages
from pipeline.artifacts.network import ChosenNetwork
from pipeline.artifacts.suspects import Suspects
from pipeline.autodo.augmentation import KINDS
from pipeline.autodo_config import AutodoConfig
from pipeline.errors import UserError
from pipeline.runner.execution import run_audit, run_stage
from pipeline.stages import retrain, stage_named
from pipeline.stages.context import Context
from pipeline.stages.parts import split_training
from tests.stages.test_retrain import choose, make_context

LEARNED = {"autodo.safetensors", "suspects.json", "suspects.png", "weights.png"}


def learning(project: Path, settings: dict[str, Any] | None = None, **recipe: Any) -> Context:
    """A run that learns weights and labels by a fifth of its images."""
    context = make_context(project, **{"epochs": 2, "auxiliary": 0.0, "drop_path": 0.0, **recipe})
    autodo = {"learn": "weights+labels", "guide_share": 0.2, "start_epoch": 1, "batch_size": 64, **(settings or {})}
    return choose(Context(context.config.model_copy(update={"autodo": AutodoConfig(**autodo)}), context.run))


def files(context: Context) -> set[str]:
    return {path.name for path in context.run.weights.parent.iterdir()}


def write_record_of_discretize(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """The chosen network was put there by a test: nobody vouches for it."""
    monkeypatch.setattr("pipeline.runner.execution.check_inputs", lambda *_: {})


def test_suspects_come_most_suspicious_first_by_their_row_in_the_data(tmp_path: Path) -> None:
    context = learning(tmp_path, holdout_share=0.1)
    retrain.run(context)
    found, images = context.read(Suspects), context.read(LearnedImages)
    losses = [suspect.early_loss for suspect in found.suspects]
    assert losses == sorted(losses, reverse=True) and len(losses) >= 200
    row = {int(index): place for place, index in enumerate(images.indices)}
    for suspect in found.suspects[:20]:
        place = row[suspect.index]
        assert suspect.label == context.data.labels[int(context.data.pool.targets[suspect.index])]
        assert suspect.proposed_label == context.data.labels[int(images.proposed[place])]
        assert suspect.weight == pytest.approx(float(images.weights[place]))
        assert suspect.early_loss == pytest.approx(float(images.early_losses[place])) and suspect.file is None
    assert sum(part.images for part in found.classes) == found.train_images == len(images.indices)
    assert images.labels is not None and images.labels.shape == (len(images.indices), 10)
    metrics = json.loads(context.run.metrics.read_text())
    assert metrics["autodo"]["learn"] == "weights+labels" and metrics["autodo"]["holdout_gain"] is not None
    assert files(context) >= LEARNED


def test_what_was_learned_about_augmentation_is_kept_and_summed_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    context = learning(tmp_path, {"learn": "weights+labels+augmentation"})
    retrain.run(context)
    images = context.read(LearnedImages)
    assert images.augmentation is not None and images.augmentation.shape == (len(images.indices), 14)
    rows = json.loads(context.run.metrics.read_text())["autodo"]["augmentation"]
    assert [row["kind"] for row in rows] == list(KINDS)
    for number, row in enumerate(rows):
        assert row["probability"] == pytest.approx(float(images.augmentation[:, number].mean()), abs=1e-6)
        assert row["magnitude"] == pytest.approx(float(images.augmentation[:, 7 + number].mean()), abs=1e-6)
    floats = len(images.indices) * (2 * 4 * (1 + 10 + 14) + 20)
    assert f"this takes {floats / 1e6:,.1f} MB" in " ".join(capsys.readouterr().err.split())


def test_guide_holdout_test_and_training_are_disjoint(tmp_path: Path) -> None:
    context = learning(tmp_path, holdout_share=0.1)
    parts = split_training(context)
    assert parts.guide is not None and parts.holdout is not None
    pieces = [parts.train.indices, parts.guide.indices, parts.holdout.indices, context.data.split.test]
    together = torch.cat(pieces)
    assert len(together.unique()) == len(together) == len(context.data.pool.targets)


def test_an_audit_leaves_suspects_alone_and_retrain_goes_on_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    context = learning(tmp_path)
    write_record_of_discretize(context, monkeypatch)
    run_audit(context)
    assert files(context) >= LEARNED and not files(context) & {"weights.safetensors", "metrics.json", "record.json"}
    said = context.run.suspects.read_bytes()
    monkeypatch.setattr("pipeline.training.step.Stepper.step", lambda *_: pytest.fail("it trained again"))
    run_stage(context, stage_named("retrain"))
    assert context.run.suspects.read_bytes() == said
    assert files(context) >= LEARNED | {"weights.safetensors", "metrics.json", "record.json"}
    capsys.readouterr()
    run_audit(context)
    assert "up to date; what it suspects is in" in capsys.readouterr().err


def test_a_training_without_learning_leaves_no_suspects_of_an_earlier_one(tmp_path: Path) -> None:
    context = learning(tmp_path)
    for name in LEARNED:
        context.run.weights.parent.mkdir(parents=True, exist_ok=True)
        (context.run.weights.parent / name).write_text("of an earlier training")
    retrain.run(learning(tmp_path, {"learn": "off", "guide_share": 0.0}))
    assert not files(context) & LEARNED
    with pytest.raises(UserError, match="--learn"):
        run_audit(learning(tmp_path, {"learn": "off"}))


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"guide_share": 0.0}, "neither"),
        ({"guide": "x.npz"}, "both"),
        ({"start_epoch": 2}, "start_epoch"),
        ({"max_memory_gb": 1e-6}, "max_memory_gb"),
        ({"guide": "nowhere", "guide_share": 0.0}, "there is no"),
    ],
)
def test_what_cannot_work_is_refused_before_training(tmp_path: Path, settings: dict[str, Any], match: str) -> None:
    np.savez(tmp_path / "x.npz", x_train=np.zeros((10, 8, 8), np.uint8), y_train=np.arange(10))
    context = learning(tmp_path, settings)
    with pytest.raises(UserError, match=match):
        retrain.run(context)
    assert not context.run.checkpoints("retrain").exists()


def test_another_guide_is_another_training(tmp_path: Path) -> None:
    contexts = [learning(tmp_path, {"guide": "checked.npz", "guide_share": 0.0}) for _ in range(3)]
    jobs = []
    for context, first in zip(contexts, (0, 0, 1), strict=True):
        pixels = np.full((10, 8, 8), (np.arange(10) + first)[:, None, None], np.uint8)
        np.savez(tmp_path / "checked.npz", x_train=pixels, y_train=np.arange(10))
        jobs.append(retrain.make_job(context, context.read(ChosenNetwork), torch.device("cpu")))
    assert len(jobs[0].guide or ()) == 10
    assert jobs[0].config_hash == jobs[1].config_hash != jobs[2].config_hash
