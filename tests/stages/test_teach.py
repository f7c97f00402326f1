"""teach from a run on disk: timm's network with the classes of the data, resumed to the byte, and used by retrain."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from pipeline.artifacts.files import TeacherBase, TeacherFile
from pipeline.artifacts.metrics import Metrics
from pipeline.artifacts.taught import TaughtTeacher
from pipeline.errors import Interrupted, UserError
from pipeline.resumable.history import read_history
from pipeline.runner.artifacts import hash_of
from pipeline.runner.execution import changes_since, run_stage
from pipeline.stages import TEACH, retrain, stage_named, teach
from pipeline.stages.context import Context
from pipeline.stages.teachers import open_teacher
from pipeline.teach_config import TeachConfig
from pipeline.training.step import Stepper
from tests.stages.made_teachers import SIDE, SMALLEST, make_timm, write_timm
from tests.stages.test_retrain import choose, make_context
from tests.training.material import CPU


def teaching(project: Path, settings: dict[str, Any] | None = None, **recipe: Any) -> Context:
    project.mkdir(exist_ok=True)
    given = {"teacher": f"timm:{SMALLEST}@base.safetensors", "epochs": 1, "ema": 0.0, "holdout_share": 0.1, **recipe}
    if not (project / "base.safetensors").exists():
        write_timm(project / "base.safetensors", classes=7, channels=3)
    context = make_context(project, **given)
    section = TeachConfig(**{"epochs": 2, "lr": 0.05, "batch_size": 64, "resolution": SIDE, **(settings or {})})
    return replace(context, config=context.config.model_copy(update={"teach": section}))


def test_it_starts_from_the_file_with_a_new_head_and_retrain_learns_from_it(tmp_path: Path) -> None:
    context = choose(teaching(tmp_path, {"epochs": 6}))
    with pytest.raises(UserError, match="pipeline teach --run demo"):
        retrain.run(context)
    made, _ = teach.make_network(context, teach._require_timm(context))
    base = make_timm(7, 3).state_dict()
    own = made.network.state_dict()
    assert all(torch.equal(own[name], base[name]) for name in base if not name.startswith("fc."))
    assert own["fc.weight"].shape[0] == 10
    run_stage(context, TEACH)
    taught = context.read(TaughtTeacher)
    assert taught.facts.labels == context.data.labels and taught.facts.side == SIDE
    history = read_history(context.run.history("teach"))
    assert [entry["holdout_top1"] for entry in history if "holdout_top1" in entry][-1] > 0.5, "it has learned"
    assert not list(changes_since(context, TEACH)) and not context.run.checkpoints("teach").exists()
    retrain.run(context)
    figures = context.read(Metrics).teacher
    assert figures is not None and figures.accuracy > 0.5 and figures.name == f"timm:{SMALLEST}@base.safetensors"


def test_stopped_anywhere_it_goes_on_to_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, cut = teaching(tmp_path / "whole"), teaching(tmp_path / "cut")
    teach.run(whole)
    step = Stepper.step
    steps = [0]

    def interrupt(self: Stepper, *given: Any, **named: Any) -> Any:
        steps[0] += 1
        return step(self, *given, **{**named, "stop": steps[0] == 5})

    monkeypatch.setattr(Stepper, "step", interrupt)
    with pytest.raises(Interrupted):
        teach.run(cut)
    assert not cut.run.taught_teacher.exists()
    teach.run(cut)
    assert cut.run.taught_teacher.read_bytes() == whole.run.taught_teacher.read_bytes()
    assert steps[0] == 2 * 7, "no step was made twice"


def test_another_rate_or_base_is_another_teaching(tmp_path: Path) -> None:
    jobs = []
    for settings in ({}, {}, {"lr": 0.01}, {"pretrained": False}):
        context = teaching(tmp_path, settings)
        jobs.append(teach.make_job(context, *teach.make_network(context, teach._require_timm(context)), CPU))
    hashes = [job.config_hash for job in jobs]
    assert hashes[0] == hashes[1] and len(set(hashes)) == 3
    assert jobs[0].section == "teach" and jobs[0].config.auxiliary == 0 == jobs[0].config.drop_path
    assert not jobs[0].config.teacher


def test_it_keeps_the_holdout_of_retrain_apart(tmp_path: Path) -> None:
    context = choose(teaching(tmp_path))
    job = teach.make_job(context, *teach.make_network(context, teach._require_timm(context)), CPU)
    run_stage(context, TEACH)
    theirs = retrain.prepare(context, CPU).job
    assert job.holdout is not None and theirs.holdout is not None
    assert torch.equal(job.holdout.indices, theirs.holdout.indices)
    assert torch.equal(job.train.indices, theirs.train.indices)


def test_a_plain_retrain_does_not_depend_on_what_was_taught(tmp_path: Path) -> None:
    context = teaching(tmp_path)
    run_stage(context, TEACH)
    plain = teaching(tmp_path, teacher="")
    assert hash_of(plain, TeacherFile) is None and hash_of(plain, TeacherBase) is None
    assert hash_of(context, TeacherFile) != hash_of(context, TeacherBase) is not None
    changed = teaching(tmp_path, {"lr": 0.01})
    assert [change for change in changes_since(changed, TEACH) if "teach.lr changed" in change]
    assert stage_named("teach") is TEACH


@pytest.mark.parametrize(
    ("settings", "recipe", "match"),
    [
        ({}, {"teacher": ""}, "is empty; `pipeline teach` fine-tunes a network of timm"),
        ({}, {"teacher": "some.onnx"}, "a file that is used as it is"),
        ({}, {"teacher": "timm:test_vit@base.safetensors"}, "not those of timm's test_vit"),
        ({"resolution": 40, "pretrained": False}, {"teacher": "timm:test_vit"}, "cannot be fed images of 40 px"),
        ({}, {"teacher": f"timm:{SMALLEST}@none.safetensors"}, "there is no"),
    ],
)
def test_what_cannot_be_taught_is_refused(
    tmp_path: Path, settings: dict[str, Any], recipe: dict[str, Any], match: str
) -> None:
    context = teaching(tmp_path, settings, **recipe)
    with pytest.raises(UserError, match=match):
        teach.run(context)
    assert not context.run.root.exists()


def test_a_damaged_teacher_names_the_command(tmp_path: Path) -> None:
    context = teaching(tmp_path)
    context.run.taught_teacher.parent.mkdir(parents=True)
    context.run.taught_teacher.write_bytes(b"torn")
    with pytest.raises(UserError, match=r"damaged.*`pipeline teach --run demo` again"):
        open_teacher(context, CPU)
