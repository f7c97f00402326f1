"""What is refused before anything runs, and that a stage which comes to nothing leaves all as it was."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipeline.autodo_config import AutodoConfig
from pipeline.config import Config
from pipeline.errors import PromiseBroken, UserError
from pipeline.runner import execution
from pipeline.runner.execution import run_all, run_stage
from pipeline.stages.context import Context
from tests.runner.conftest import FIRST, SECOND, Calls, contents, context


def test_what_training_would_refuse_of_a_guide_is_refused_before_the_search(calls: Calls, tmp_path: Path) -> None:
    given = context(tmp_path)
    learning = given.config.model_copy(update={"autodo": AutodoConfig(learn="weights+labels", guide="nowhere")})
    for config, match in ((learning, "there is no .*nowhere"), (_without_guide(learning), "neither of")):
        with pytest.raises(UserError, match=match):
            run_all(Context(config, given.run))
    assert calls == []


def _without_guide(config: Config) -> Config:
    return config.model_copy(update={"autodo": config.autodo.model_copy(update={"guide": ""})})


def test_a_run_refuses_its_teacher_before_the_search(calls: Calls, tmp_path: Path) -> None:
    plain = context(tmp_path)
    retrain = plain.config.retrain.model_copy(update={"teacher": "nowhere.onnx"})
    with pytest.raises(UserError, match=r"there is no .*nowhere\.onnx"):
        run_all(replace(plain, config=plain.config.model_copy(update={"retrain": retrain})))
    assert not calls


@pytest.mark.parametrize("name", ["record", "config", "environment", "splits"])
def test_a_folder_in_the_place_of_a_file_is_refused_before_anything_runs(
    calls: Calls, tmp_path: Path, name: str
) -> None:
    own = context(tmp_path).run
    place = own.record("search") if name == "record" else getattr(own, name)
    place.mkdir(parents=True)
    with pytest.raises(UserError, match="is a folder, where a file is to be written"):
        run_all(context(tmp_path))
    assert calls == []


def test_a_launcher_is_refused_where_one_process_must_work_alone(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    for work in (
        lambda: run_all(context(tmp_path)),
        lambda: run_stage(context(tmp_path), replace(FIRST, shared=False)),
        lambda: execution.hand_out(context(tmp_path), FIRST, lambda _: None),
        lambda: execution.run_otherwise(context(tmp_path), FIRST, lambda _: None, ""),
    ):
        with pytest.raises(UserError, match="only search, discretize, retrain share out their work"):
            work()
    run_stage(context(tmp_path), FIRST)
    assert calls == ["search"]


def test_a_missing_input_names_its_command_and_run(calls: Calls, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"alphas\.safetensors is missing.*`pipeline search --run one`"):
        run_stage(context(tmp_path), SECOND)
    assert calls == []


@pytest.mark.parametrize("damage", ["altered", "of an unfinished stage"])
def test_an_input_that_is_not_what_its_maker_left_is_refused(calls: Calls, tmp_path: Path, damage: str) -> None:
    run_all(context(tmp_path))
    run = context(tmp_path).run
    run.alphas.write_text("flipped") if damage == "altered" else run.record("search").unlink()
    before = contents(tmp_path)
    with pytest.raises(UserError, match=r"alphas.safetensors is not what `pipeline search --run one` left there"):
        run_stage(context(tmp_path), SECOND, force=True)
    assert contents(tmp_path) == before


def test_a_refusal_leaves_no_trace_of_a_new_run(calls: Calls, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="missing"):
        run_stage(context(tmp_path, "typo"), SECOND)
    assert not list(tmp_path.iterdir())


def test_a_failed_stage_leaves_no_record(calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(context: Context) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(execution, "_module", lambda stage: SimpleNamespace(run=explode))
    with pytest.raises(OSError, match="No space"):
        run_all(context(tmp_path))
    assert not context(tmp_path).run.record("search").exists()


@pytest.mark.parametrize("error", [KeyboardInterrupt(), UserError("no"), PromiseBroken("no")])
def test_a_finished_stage_survives_a_redo_that_comes_to_nothing(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    run_all(context(tmp_path))
    before = contents(tmp_path)

    def fail(_: Context) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(execution, "_module", lambda _: SimpleNamespace(run=fail))
        with pytest.raises(type(error)):
            run_all(replace(context(tmp_path, epochs=3), flags={"search": {"epochs": 3}}))
    assert contents(tmp_path) == before
    run_all(context(tmp_path))
    assert calls == ["search", "retrain"]
