"""Finished work: asked about before it is made again, set aside until there is something new, and kept per budget."""

import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipeline import console
from pipeline.artifacts.certificate import Certificate
from pipeline.artifacts.files import DeployedModel, Images
from pipeline.artifacts.latency_table import LatencyTable
from pipeline.artifacts.network import ChosenNetwork
from pipeline.artifacts.stage_record import StageRecord
from pipeline.errors import Interrupted, PromiseBroken, UserError
from pipeline.latency.table import table_name
from pipeline.latency.target import TargetMachine
from pipeline.resumable.checkpoint import OtherConfigurationError
from pipeline.rundir import RunDir
from pipeline.runner import execution
from pipeline.runner.artifacts import check_inputs
from pipeline.runner.execution import preview_stage, run_all, run_stage
from pipeline.runner.log import logged
from pipeline.runner.opening import open_run, take_budget
from pipeline.runner.redoing import confirm_redo, outlived_export, replaced_export, set_aside
from pipeline.stages import Stage, stage_named
from pipeline.stages.context import Context
from pipeline.whole_files import sha256_of, write_text
from tests.artifacts.made import NETWORK, made_card, made_certificate
from tests.latency.fakes import FINGERPRINT, FakeDevice
from tests.latency.made import SKELETON, made_table
from tests.runner.conftest import FIRST, SECOND, Calls, contents, context


def took(folder: Path, stage: str, seconds: float) -> None:
    path = context(folder).run.record(stage)
    StageRecord.read(path).model_copy(update={"seconds": seconds}).write(path)


class Person:
    """Somebody at a terminal who answers what they are told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
        self.questions: list[str] = []
        self.answer = answer
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
        monkeypatch.setattr(
            console, "console", SimpleNamespace(is_terminal=True, input=self._hear, print=lambda *_, **__: None)
        )

    def _hear(self, question: object) -> str:
        self.questions.append(str(question))
        return self.answer


def test_a_no_at_the_terminal_leaves_everything(calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_all(context(tmp_path))
    took(tmp_path, "search", 7000.0)
    took(tmp_path, "retrain", 200.0)
    before, person = contents(tmp_path), Person(monkeypatch, "n")
    with pytest.raises(UserError, match="left as it is"):
        run_all(context(tmp_path, epochs=3))
    (question,) = person.questions
    assert "search.epochs changed from 12 to 3" in question
    assert "search, retrain again, which took 2:00:00 last time" in question, "what follows is counted"
    assert contents(tmp_path) == before and calls == ["search", "retrain"]


@pytest.mark.parametrize(("budget_ms", "is_asked"), [(1e-4, False), (1e4, True)])
def test_nobody_is_asked_about_a_search_for_a_budget_that_no_network_keeps(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, budget_ms: float, is_asked: bool
) -> None:
    given, search = context(tmp_path), replace(FIRST, reads=(Images, LatencyTable))
    sizes = {"space": "darts", "cells": SKELETON.cells, "channels": SKELETON.channels, "budget_ms": budget_ms}
    data = {"resolution": SKELETON.resolution, "classes": SKELETON.classes, "colour": SKELETON.in_channels == 3}
    config = given.config.model_copy(
        update={
            "target": given.config.target.model_copy(update=sizes),
            "data": given.config.data.model_copy(update=data),
            "discretize": given.config.discretize.model_copy(update={"cells_grid": [], "channels_grid": []}),
        }
    )
    monkeypatch.setattr(TargetMachine, "of", lambda *_: TargetMachine(FakeDevice()))
    made_table().write(given.run.tables / table_name(FINGERPRINT, "darts"))
    run_stage(given, FIRST)
    took(tmp_path, "search", 420.0)
    person, error = Person(monkeypatch, "n"), UserError if is_asked else PromiseBroken
    with pytest.raises(error, match="left as it is" if is_asked else "budget_ms = 0.0001 ms cannot be kept"):
        confirm_redo(replace(given, config=config), [search], ["target.budget_ms changed"])
    assert len(person.questions) == is_asked


@pytest.mark.parametrize(("answer", "yes", "asked"), [("y", False, 1), ("n", True, 0)])
def test_one_question_is_enough_and_yes_asks_none(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, yes: bool, asked: int
) -> None:
    run_all(context(tmp_path))
    took(tmp_path, "search", 7000.0)
    took(tmp_path, "retrain", 7000.0)
    person = Person(monkeypatch, answer)
    run_all(context(tmp_path, epochs=3), yes)
    assert len(person.questions) == asked and calls == ["search", "retrain"] * 2


@pytest.mark.parametrize("why", ["quick", "forced", "under way", "no terminal"])
def test_nobody_is_asked_needlessly(calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    run_stage(context(tmp_path), FIRST)
    took(tmp_path, "search", 59.0 if why == "quick" else 7000.0)
    if why == "under way":
        write_text(context(tmp_path).run.checkpoints("search") / "state.pt", "")
    person = Person(monkeypatch, "n")
    if why == "no terminal":
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: False))
    run_stage(context(tmp_path, epochs=3), FIRST, force=why == "forced")
    assert calls == ["search", "search"] and not person.questions


@pytest.mark.parametrize("error", [UserError("no"), PromiseBroken("no"), Interrupted("early"), KeyboardInterrupt()])
def test_force_drops_no_checkpoint_before_there_is_a_new_one(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    run_stage(context(tmp_path), FIRST)
    run = context(tmp_path).run
    write_text(run.checkpoints("search") / "last" / "state.pt", "hours")
    before = contents(tmp_path)

    def fail(_: Context) -> None:
        assert not run.checkpoints("search").exists(), "it starts anew"
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(execution, "_module", lambda _: SimpleNamespace(run=fail))
        with pytest.raises(type(error)):
            run_stage(context(tmp_path), FIRST, force=True)
    assert contents(tmp_path) == before
    run_stage(context(tmp_path), FIRST, force=True)
    assert not run.checkpoints("search").exists()


def test_a_kill_while_a_checkpoint_is_aside_loses_neither(tmp_path: Path) -> None:
    checkpoints, aside = tmp_path / "checkpoint", tmp_path / "checkpoint.aside"
    write_text(aside / "old.pt", "old")
    with set_aside(checkpoints, force=False):
        assert (checkpoints / "old.pt").exists(), "nothing new was saved before the kill"
    write_text(aside / "older.pt", "older")
    with set_aside(checkpoints, force=False):
        assert (checkpoints / "old.pt").exists() and not aside.exists(), "something new was"


def test_the_record_is_there_before_the_last_checkpoint_goes(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(context: Context) -> None:
        write_text(context.run.checkpoints("search") / "state.pt", "last")
        write_text(context.run.alphas, "done")

    def kill(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(execution, "_module", lambda _: SimpleNamespace(run=run))
    monkeypatch.setattr(execution, "_record", kill)
    with pytest.raises(KeyboardInterrupt):
        run_stage(context(tmp_path), FIRST)
    assert (context(tmp_path).run.checkpoints("search") / "state.pt").exists()


def test_a_run_keeps_a_log_of_what_was_said_and_a_refusal_adds_nothing(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    console.take_spoken()
    monkeypatch.setattr(sys, "argv", ["pipeline", "search", "--run", "one"])
    run_stage(context(tmp_path), FIRST)
    log = context(tmp_path).run.log
    first = log.read_text()
    assert "pipeline search --run one" in first and "▶ search: not done yet" in first
    with logged(context(tmp_path).run, goes_on=True):
        console.say("its closing table")
    first = log.read_text()
    assert first.count("\n---") == 0 and first.endswith("its closing table\n")

    def refuse(_: Context) -> None:
        raise PromiseBroken("over budget")

    def stop(_: Context) -> None:
        raise Interrupted("interrupted: step 3 saved")

    for work, added in ((refuse, ""), (stop, "interrupted: step 3 saved")):
        monkeypatch.setattr(execution, "_module", lambda _, work=work: SimpleNamespace(run=work))
        with pytest.raises((PromiseBroken, Interrupted)):
            run_stage(context(tmp_path, epochs=3), FIRST)
        assert log.read_text().removeprefix(first).endswith(f"{added}\n" if added else "")
    assert "over budget" not in log.read_text()


def test_a_no_to_a_training_leaves_the_genotype_from_elsewhere_that_comes_before_it(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`pipeline retrain --genotype FILE` has two stages: one question comes before both."""
    monkeypatch.setattr(execution, "_with_transfer", lambda *_: [FIRST, SECOND])
    run_stage(context(tmp_path), SECOND)
    took(tmp_path, "retrain", 7000.0)
    before, person = contents(tmp_path), Person(monkeypatch, "n")
    with pytest.raises(UserError, match="left as it is"):
        run_stage(context(tmp_path, epochs=3), SECOND)
    assert len(person.questions) == 1 and contents(tmp_path) == before
    context(tmp_path).run.record("search").unlink()
    with pytest.raises(UserError, match="left as it is"):
        run_stage(context(tmp_path), SECOND)
    assert "not done yet. Make retrain again" in person.questions[-1] and calls == ["search", "retrain"]


def with_retrain_epochs(folder: Path, epochs: int) -> Context:
    """The run as a flag asks for it that the second stage alone depends on."""
    given = context(folder)
    retrain = given.config.retrain.model_copy(update={"epochs": epochs})
    config = given.config.model_copy(update={"retrain": retrain})
    return replace(given, config=config, flags={"retrain": {"epochs": epochs}})


def test_the_time_of_a_stage_counts_its_interrupted_sessions(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three sessions of 100 s, the first two stopped after they had saved something."""
    now, one = [0.0], context(tmp_path)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def work(context: Context) -> None:
        now[0] += 100.0
        write_text(context.run.checkpoints("search") / f"{now[0]:g}.pt", "state")
        if now[0] < 300:
            raise Interrupted("interrupted")
        write_text(context.run.alphas, "done")

    monkeypatch.setattr(execution, "_module", lambda _: SimpleNamespace(run=work))
    for _ in range(2):
        with pytest.raises(Interrupted):
            run_stage(one, FIRST)
    run_stage(one, FIRST)
    assert StageRecord.read(one.run.record("search")).seconds == 300.0
    assert not one.run.checkpoints("search").exists()


def test_saved_state_of_other_settings_is_refused_with_what_has_changed(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(context: Context) -> None:
        if (context.run.checkpoints("search") / "1.pt").is_file():
            raise OtherConfigurationError("the checkpoint was saved under another configuration")
        write_text(context.run.checkpoints("search") / "1.pt", "state")
        raise Interrupted("interrupted")

    monkeypatch.setattr(execution, "_module", lambda _: SimpleNamespace(run=work))
    with pytest.raises(Interrupted):
        run_stage(context(tmp_path, epochs=210), FIRST)
    with pytest.raises(UserError, match=r"\(search.epochs changed from 210 to 105\): undo the change to go on") as told:
        run_all(context(tmp_path, epochs=105))
    assert "`pipeline search --run one --force`" in str(told.value), "`pipeline run` takes no --force"
    (context(tmp_path).run.checkpoints("search") / "took.json").write_text("[]")  # as a kill leaves none
    with pytest.raises(UserError, match="another configuration"):
        run_stage(context(tmp_path, epochs=105), FIRST)


def test_state_left_after_its_record_goes_with_the_next_command_and_other_state_stays(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the two, a stage is done; what later work has saved is not its state."""
    module, state = execution._module, context(tmp_path).run.checkpoints("search") / "epoch" / "000001-abc.pt"

    def run(context: Context) -> None:
        write_text(state, "last")
        write_text(context.run.alphas, "done")

    def kill(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(execution, "_module", lambda _: SimpleNamespace(run=run))
        patch.setattr("shutil.rmtree", kill)
        run_stage(context(tmp_path), FIRST)
    assert state.exists()
    monkeypatch.setattr(execution, "_module", module)
    for name in ("000001-abc.pt", "000002-def.pt"):  # as it was, and with what is saved by work that follows
        write_text(state, "last")
        write_text(state.with_name(name), "last")
        run_stage(context(tmp_path), FIRST)
        assert state.exists() == (name != state.name) and not calls


def test_what_killed_writers_left_is_swept_at_the_next_start(calls: Calls, tmp_path: Path) -> None:
    run = context(tmp_path).run
    left = [run.alphas.with_name(".alphas.safetensors.abc.part"), run.tables / ".table.json.abc.part"]
    mine = run.root / "notes.part"
    for path in (*left, mine):
        write_text(path, "half")
    run_stage(context(tmp_path), FIRST)
    assert mine.exists() and not any(path.exists() for path in left)


def choose(folder: Path, *budgets_ms: float) -> RunDir:
    """What `discretize` leaves for several budgets; the last is trained by default."""
    run = RunDir(folder, "one")
    for budget_ms in budgets_ms:
        own = replace(run, budget=f"{budget_ms:g}ms" if budget_ms != budgets_ms[-1] else "")
        for place in {own, replace(run, budget=f"{budget_ms:g}ms")}:
            NETWORK.write(place.genotype)
            made_certificate(budget_ms=budget_ms).write(place.certificate)
    return run


def test_a_budget_takes_its_own_network_beside_the_others(tmp_path: Path) -> None:
    run = choose(tmp_path, 5.0, 10.0, 20.0)
    assert take_budget(run, 20.0) == run, "it is trained anyway"
    own = take_budget(run, 5.0)
    assert own.certificate == run.root / "discretize" / "5ms" / "certificate.json"
    assert own.weights == run.root / "retrain" / "5ms" / "weights.safetensors"
    assert own.record("retrain").parent == own.checkpoints("retrain").parent == own.weights.parent
    assert own.exports == tmp_path / "exports" / "one-5ms" and own.alphas == run.alphas
    assert own.call("retrain") == "retrain --run one --budget-ms 5" and own.call("search") == "search --run one"
    with pytest.raises(UserError, match=r"no network was chosen for 7 ms \(there are 5, 10, 20 ms\)"):
        take_budget(run, 7.0)
    (tmp_path / "pipeline.toml").write_text("")
    assert open_run(tmp_path / "pipeline.toml", "one", {}, 10.0).run.budget == "10ms"


def test_an_export_for_another_budget_is_named_before_it_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after `discretize --budget-ms 5,20` on a run that was exported for 40 ms."""
    run, last = choose(tmp_path, 40.0), Stage("export", (), (ChosenNetwork,), (DeployedModel,))
    monkeypatch.setattr(execution, "stages_of", lambda _: (last,))
    monkeypatch.setattr(execution, "check_inputs", lambda *_: {"genotype": sha256_of(run.genotype)})
    monkeypatch.setattr(
        execution, "_module", lambda _: SimpleNamespace(run=lambda _: write_text(run.model, "an ONNX file"))
    )
    run_all(context(tmp_path))
    old = made_certificate(budget_ms=40.0)
    made_card(budget_ms=40.0, certificate=old, test_accuracy=0.6346).write(run.model_card)
    took(tmp_path, "export", 280.0)
    choose(tmp_path, 5.0, 20.0)
    write_text(run.genotype, run.genotype.read_text() + "\n")
    person, before = Person(monkeypatch, "n"), contents(tmp_path)
    with pytest.raises(UserError, match="leave out the flag or undo the change"):
        run_all(context(tmp_path))
    assert "last time, and replace exports/one (40 ms, 63.46%) by a network for 20 ms?" in person.questions[0]
    assert contents(tmp_path) == before
    person.answer = "y"
    run_all(context(tmp_path))
    assert "this replaces exports/one (40 ms, 63.46%) by a network for 20 ms" in run.log.read_text()


@pytest.mark.parametrize(
    ("wanted_ms", "several_ms", "coming"),
    [(2.0, [], "2 ms"), (1.0, [1.0, 1.5], ""), (9.0, [1.5, 1.2], "1.5 ms"), (1.0, [], "")],
)
def test_the_budget_that_comes_is_the_one_that_discretize_will_train(
    tmp_path: Path, wanted_ms: float, several_ms: list[float], coming: str
) -> None:
    made_card().write(context(tmp_path).run.model_card)
    config = context(tmp_path).config
    target = config.target.model_copy(update={"budget_ms": wanted_ms})
    discretize = config.discretize.model_copy(update={"budgets_ms": several_ms})
    given = replace(context(tmp_path), config=config.model_copy(update={"target": target, "discretize": discretize}))
    found = replaced_export(given, [stage_named("discretize"), stage_named("export")])
    assert found == (f"exports/one (1 ms, 90.00%) by a network for {coming}" if coming else "")
    assert not replaced_export(given, [stage_named("discretize")]), "nothing is exported"


def test_an_export_that_holds_another_network_than_the_choice_is_named(tmp_path: Path) -> None:
    given = context(tmp_path)
    assert not outlived_export(given), "nothing is exported"
    made_card().write(given.run.model_card)
    ChosenNetwork(genotype=made_card().genotype, skeleton=made_card().skeleton).write(given.run.genotype)
    assert not outlived_export(given)
    wider = replace(made_card().skeleton, channels=8)
    ChosenNetwork(genotype=made_card().genotype, skeleton=wider).write(given.run.genotype)
    assert outlived_export(given).startswith("exports/one still holds the network of an earlier choice (1 ms, 90.00%)")


def test_every_budget_has_a_record_by_which_its_files_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage("discretize", (), (), (ChosenNetwork, Certificate))
    monkeypatch.setattr(execution, "_module", lambda _: SimpleNamespace(run=lambda _: choose(tmp_path, 5.0, 20.0)))
    run_stage(context(tmp_path), stage)
    own = replace(context(tmp_path), run=take_budget(context(tmp_path).run, 5.0))
    reader = Stage("export", (), (ChosenNetwork, Certificate), ())
    assert set(check_inputs(own, reader)) == {"genotype", "certificate"}
    made_certificate(budget_ms=6.0).write(own.run.certificate)
    with pytest.raises(UserError, match=r"5ms/certificate.json is not what `pipeline discretize --run one` left"):
        check_inputs(own, reader)


def test_which_network_is_trained_is_said(calls: Calls, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_stage(context(tmp_path), FIRST)
    choose(tmp_path, 5.0)
    run_all(context(tmp_path))
    assert "the network chosen for 5 ms: 1 cells × 4 channels, p50 0.9 ms (measured on the target)" in (
        capsys.readouterr().err
    )


def test_an_added_photo_redoes_what_sees_it_and_not_the_profile() -> None:
    profile = stage_named("profile")
    assert not profile.reads and not {name for name in profile.settings if name in ("data", "data.path")}


def test_the_augmentation_of_training_alone_redoes_the_training_alone() -> None:
    config = context(Path()).config
    changed = config.model_copy(update={"retrain": config.retrain.model_copy(update={"augment": "crop-flip"})})
    differs = {
        name
        for name in ("profile", "search", "discretize", "retrain", "export")
        if stage_named(name).settings_in(config) != stage_named(name).settings_in(changed)
    }
    assert differs == {"retrain"}


@pytest.mark.parametrize(
    ("is_saved", "epochs", "said"),
    [
        (False, 3, "next: the same command without --dry-run"),
        (True, 3, "search is under way in this run: it goes on from what is saved"),
        (True, 5, "search was interrupted under other settings (search.epochs changed from 3 to 5)"),
    ],
)
def test_a_dry_run_says_whether_the_command_would_begin_go_on_or_be_refused(
    calls: Calls,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    is_saved: bool,
    epochs: int,
    said: str,
) -> None:
    def stop(mine: Context) -> None:
        if is_saved:
            write_text(mine.run.checkpoints("search") / "000000-step-3-0123456789abcdef.pt", "state")
        raise Interrupted("interrupted: step 3 saved")

    fake = SimpleNamespace(run=stop, preview=lambda _: console.say("time: about 0:01:00"))
    monkeypatch.setattr(execution, "_module", lambda _: fake)
    with pytest.raises(Interrupted):
        run_stage(context(tmp_path, epochs=3), FIRST)
    before = contents(tmp_path)
    capsys.readouterr()
    preview_stage(context(tmp_path, epochs=epochs), FIRST)
    heard = " ".join(capsys.readouterr().err.split())
    assert heard.startswith("time: about 0:01:00") and said in heard
    assert ("next: the same command" in heard) is ("interrupted" not in said)
    assert contents(tmp_path) == before
