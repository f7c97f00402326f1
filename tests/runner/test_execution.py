"""Which stages run: by content, never by time stamp; with stages that only copy their inputs."""

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipeline.artifacts.alphas import Alphas
from pipeline.artifacts.files import GivenGenotype, GuideImages, Images, StartWeights, TeacherBase, TeacherFile
from pipeline.artifacts.stage_record import StageRecord
from pipeline.artifacts.trained import Trained
from pipeline.autodo_config import AutodoConfig
from pipeline.config import Config
from pipeline.errors import PromiseBroken, UserError
from pipeline.presets import preset
from pipeline.rundir import RunDir
from pipeline.runner import artifacts, execution
from pipeline.runner.execution import run_all, run_stage
from pipeline.runner.opening import open_run, remember_flags
from pipeline.section import WITHOUT_EFFECT
from pipeline.stages import STAGES, TEACH, TRANSFER, Stage
from pipeline.stages.context import Context
from pipeline.stages.retrain import check_learning
from pipeline.whole_files import read_json, sha256_of, write_text

FIRST = Stage("search", ("search", "data", "compute.workers"), (Images,), (Alphas,), shared=True)
SECOND = Stage("retrain", ("retrain",), (Alphas,), (Trained,))


class Calls(list[str]):
    """The names of the stages that ran."""


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    found = Calls()

    def module(stage: Stage) -> SimpleNamespace:
        def run(context: Context) -> None:
            found.append(stage.name)
            content = (
                f"epochs {context.config.search.epochs}" if stage is FIRST else f"from {context.run.alphas.read_text()}"
            )
            write_text(getattr(context.run, stage.writes[0].name), content)

        return SimpleNamespace(run=run, check_learning=check_learning)

    for place in (execution, artifacts):
        monkeypatch.setattr(place, "stages_of", lambda _: (FIRST, SECOND))
    monkeypatch.setattr(execution, "_module", module)
    return found


def context(folder: Path, run: str = "one", **search: int) -> Context:
    config = preset("digits")
    changed = config.model_copy(update={"search": config.search.model_copy(update=search)})
    return Context(changed, RunDir(folder, run))


def test_what_training_would_refuse_of_a_guide_is_refused_before_the_search(calls: Calls, tmp_path: Path) -> None:
    given = context(tmp_path)
    learning = given.config.model_copy(update={"autodo": AutodoConfig(learn="weights+labels", guide="nowhere")})
    for config, match in ((learning, "there is no .*nowhere"), (_without_guide(learning), "neither of")):
        with pytest.raises(UserError, match=match):
            run_all(Context(config, given.run))
    assert calls == []


def _without_guide(config: Config) -> Config:
    return config.model_copy(update={"autodo": config.autodo.model_copy(update={"guide": ""})})


def test_a_second_run_does_nothing_and_says_why(
    calls: Calls, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_all(context(tmp_path))
    assert calls == ["search", "retrain"]
    os.utime(context(tmp_path).run.alphas)
    capsys.readouterr()
    run_all(context(tmp_path))
    assert calls == ["search", "retrain"]
    assert capsys.readouterr().err.count("up to date") == 2


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


def test_a_changed_setting_runs_its_stage_and_what_reads_its_output(
    calls: Calls, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_all(context(tmp_path))
    run_all(context(tmp_path, epochs=3))
    assert calls == ["search", "retrain"] * 2
    told = capsys.readouterr().err
    assert "search.epochs changed from 12 to 3" in told and "the alphas changed" in told


def test_settings_without_effect_and_those_of_no_stage_change_nothing(calls: Calls, tmp_path: Path) -> None:
    run_all(context(tmp_path))
    config = context(tmp_path, checkpoint_s=1).config
    changed = {
        "compute": config.compute.model_copy(update={"workers": 3}),
        "retrain": config.retrain.model_copy(update={"checkpoint_s": 1.0}),
        "target": config.target.model_copy(update={"budget_ms": 99.0}),
    }
    run_all(Context(config.model_copy(update=changed), RunDir(tmp_path, "one")))
    assert calls == ["search", "retrain"]


def test_the_mark_is_on_what_has_no_effect() -> None:
    """A mark forgotten costs hours; a wrong one keeps a stale result: whoever changes this list should know why."""
    marked = {
        f"{section}.{name}"
        for section, values in Config()
        for name, field in type(values).model_fields.items()
        if WITHOUT_EFFECT in field.metadata
    }
    assert marked == {
        "compute.workers",
        "data.classes",  # must be what the data has, or the data are refused
        "discretize.rank_minutes",  # of rank, which is no stage
        "search.checkpoint_s",
        "retrain.checkpoint_s",
        "target.table",  # what lies there is hashed
        "retrain.genotype",  # likewise
        "autodo.guide",  # likewise
        "autodo.max_memory_gb",  # refuses, or changes nothing
    }


@pytest.mark.parametrize("damage", ["altered", "missing"])
def test_a_damaged_output_is_made_again(
    calls: Calls, tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run_all(context(tmp_path))
    weights = context(tmp_path).run.weights
    weights.unlink() if damage == "missing" else weights.write_text("edited")
    run_all(context(tmp_path))
    assert calls == ["search", "retrain", "retrain"]
    assert f"its weights {'is missing' if damage == 'missing' else 'was altered'}" in capsys.readouterr().err


def test_the_same_output_again_does_not_run_what_follows(calls: Calls, tmp_path: Path) -> None:
    run_all(context(tmp_path))
    run_stage(context(tmp_path), FIRST, force=True)
    run_all(context(tmp_path))
    assert calls == ["search", "retrain", "search"]


def test_a_stage_by_itself_is_skipped_unless_forced(calls: Calls, tmp_path: Path) -> None:
    run_stage(context(tmp_path), FIRST)
    run_stage(context(tmp_path), FIRST)
    assert calls == ["search"]


def test_a_missing_input_names_its_command_and_run(calls: Calls, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"alphas\.safetensors is missing.*`pipeline search --run one`"):
        run_stage(context(tmp_path), SECOND)
    assert calls == []


def test_runs_share_nothing(calls: Calls, tmp_path: Path) -> None:
    run_all(context(tmp_path, "one"))
    run_all(context(tmp_path, "two", epochs=7))
    assert (context(tmp_path, "one").run.alphas.read_text(), context(tmp_path, "two").run.alphas.read_text()) == (
        "epochs 12",
        "epochs 7",
    )
    run_all(context(tmp_path, "one"))
    assert len(calls) == 4


def test_the_record_holds_hashes_and_the_run_its_configuration(calls: Calls, tmp_path: Path) -> None:
    run_all(context(tmp_path))
    run = context(tmp_path).run
    record = StageRecord.read(run.record("retrain"))
    assert record.inputs == {"alphas": sha256_of(run.alphas)} and record.outputs == {"weights": sha256_of(run.weights)}
    assert "[search]" in run.config.read_text() and read_json(run.environment)["packages"]["torch"]
    parts = read_json(run.splits)
    assert not set(parts["train"]["indices"]) & set(parts["test"]["indices"])


def test_a_failed_stage_leaves_no_record(calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(context: Context) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(execution, "_module", lambda stage: SimpleNamespace(run=explode))
    with pytest.raises(OSError, match="No space"):
        run_all(context(tmp_path))
    assert not context(tmp_path).run.record("search").exists()


def test_flags_of_earlier_commands_are_kept_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "pipeline.toml"
    config.write_text("[target]\nbudget_ms = 9.0\n")
    open_run(config, "one", {"target": {"budget_ms": 7.0}})  # a command that comes to nothing
    assert not (tmp_path / "runs").exists()
    remember_flags(open_run(config, "one", {"target": {"budget_ms": 5.0}}))
    later = open_run(config, "one", {"target": {"percentile": 95}})
    assert (later.config.target.budget_ms, later.config.target.percentile) == (5.0, 95)
    assert "[target] budget_ms = 5.0" in capsys.readouterr().err
    assert open_run(config, "two", {}).config.target.budget_ms == 9.0


def test_a_budget_asked_for_now_beats_several_of_before(tmp_path: Path) -> None:
    config = tmp_path / "pipeline.toml"
    config.write_text("")
    remember_flags(open_run(config, "one", {"discretize": {"budgets_ms": [0.4, 0.7]}}))
    assert open_run(config, "one", {}).config.discretize.budgets_ms == [0.4, 0.7]
    asked = open_run(config, "one", {"target": {"budget_ms": 0.6}}).config
    assert (asked.target.budget_ms, asked.discretize.budgets_ms) == (0.6, [])


def test_every_stage_depends_on_settings_that_exist_and_artifacts_that_are_made() -> None:
    given = {Images, GivenGenotype, GuideImages, TeacherFile, TeacherBase, StartWeights}
    for stages in (STAGES, (TRANSFER, *STAGES[-2:]), (TEACH,)):
        made = set(given)
        for stage in stages:
            assert set(stage.reads) <= made, stage.name
            made |= set(stage.writes)
            for name in stage.settings:
                section, _, setting = name.partition(".")
                assert not setting or setting in type(getattr(Config(), section)).model_fields, name
    assert all(kind.maker == stage.name for stage in (*STAGES, TEACH) for kind in stage.writes)


def contents(folder: Path) -> dict[Path, bytes]:
    """All files but the log, which tells of interruptions too."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "log.txt"}


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


def test_a_redo_killed_after_it_replaced_an_output_is_done_again(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_all(context(tmp_path))

    def half(context: Context) -> None:
        write_text(context.run.alphas, "new")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(execution, "_module", lambda _: SimpleNamespace(run=half))
        with pytest.raises(KeyboardInterrupt):
            run_all(context(tmp_path, epochs=3))
    run_all(context(tmp_path))
    assert calls == ["search", "retrain", "search"]


@pytest.mark.parametrize("damage", ["altered", "of an unfinished stage"])
def test_an_input_that_is_not_what_its_maker_left_is_refused(calls: Calls, tmp_path: Path, damage: str) -> None:
    run_all(context(tmp_path))
    run = context(tmp_path).run
    run.alphas.write_text("flipped") if damage == "altered" else run.record("search").unlink()
    before = contents(tmp_path)
    with pytest.raises(UserError, match=r"alphas.safetensors is not what `pipeline search --run one` left there"):
        run_stage(context(tmp_path), SECOND, force=True)
    assert contents(tmp_path) == before


def test_an_output_of_an_older_schema_is_made_again(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_all(context(tmp_path))
    monkeypatch.setattr(Alphas, "version", Alphas.version + 1)
    run_all(context(tmp_path))
    assert calls == ["search", "retrain", "search"]
    assert "its alphas is of another version" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"schema": 99}'])
def test_a_damaged_record_is_refused_and_made_anew_by_force(calls: Calls, tmp_path: Path, content: str) -> None:
    run_all(context(tmp_path))
    context(tmp_path).run.record("search").write_text(content)
    with pytest.raises(UserError, match=r"record.json is damaged.*`pipeline search --run one --force` again"):
        run_stage(context(tmp_path), FIRST)
    run_stage(context(tmp_path), FIRST, force=True)
    run_all(context(tmp_path))
    assert calls == ["search", "retrain", "search"]


def test_a_refusal_leaves_no_trace_of_a_new_run(calls: Calls, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="missing"):
        run_stage(context(tmp_path, "typo"), SECOND)
    assert not list(tmp_path.iterdir())


def test_a_follower_computes_only_when_the_first_process_does(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a first process that finds all up to date, it would wait for ever."""
    run_all(context(tmp_path))
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    run_stage(context(tmp_path), FIRST)
    assert calls == ["search", "retrain"]
    run_stage(context(tmp_path, epochs=3), FIRST)
    run_stage(context(tmp_path), FIRST, force=True)
    assert calls == ["search", "retrain", "search", "search"]


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


def test_a_run_refuses_its_teacher_before_the_search(calls: Calls, tmp_path: Path) -> None:
    plain = context(tmp_path)
    retrain = plain.config.retrain.model_copy(update={"teacher": "nowhere.onnx"})
    with pytest.raises(UserError, match=r"there is no .*nowhere\.onnx"):
        run_all(replace(plain, config=plain.config.model_copy(update={"retrain": retrain})))
    assert not calls
