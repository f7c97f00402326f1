"""What a stage has saved while it is under way: set aside, gone on from, refused, and removed when it is done."""

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipeline import console
from pipeline.artifacts.stage_record import StageRecord
from pipeline.config_file import read_config
from pipeline.errors import Interrupted, PromiseBroken, UserError
from pipeline.resumable.checkpoint import OtherConfigurationError
from pipeline.runner import execution
from pipeline.runner.execution import preview_stage, run_all, run_stage
from pipeline.runner.redoing import set_aside
from pipeline.stages.context import Context
from pipeline.whole_files import write_text
from tests.runner.conftest import FIRST, Calls, contents, context


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


def test_going_on_after_force_is_said_to_be_without_it(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same command would begin anew."""
    run = context(tmp_path).run

    def stop(_: Context) -> None:
        write_text(run.checkpoints("search") / "state.pt", "half")
        raise Interrupted("step 7 saved; run the same command to go on")

    with monkeypatch.context() as patch:
        patch.setattr(execution, "_module", lambda _: SimpleNamespace(run=stop, preview=lambda _: None))
        with pytest.raises(Interrupted, match=r"to go on \(without --force, which begins anew\)"):
            run_stage(context(tmp_path), FIRST, force=True)
        with pytest.raises(Interrupted, match=r"to go on$"):
            run_stage(context(tmp_path), FIRST)
        for force, words in ((True, "--force gives up what is saved"), (False, "it goes on from what is saved")):
            preview_stage(context(tmp_path), FIRST, force)
            assert words in capsys.readouterr().err.replace("\n", " ")


def test_settings_of_work_under_way_are_told_until_it_is_done(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of before hold while nothing is saved; then those of the interrupted stage, until one is done."""
    run_stage(context(tmp_path), FIRST)
    run = context(tmp_path).run

    def told() -> int:
        return read_config(run.latest_config()).search.epochs

    def attempt(saves: bool, error: BaseException) -> None:
        def fail(context: Context) -> None:
            assert told() == context.config.search.epochs, "while it is at work"
            if saves:
                write_text(run.checkpoints("search") / "state.pt", "half")
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(execution, "_module", lambda _: SimpleNamespace(run=fail))
            with pytest.raises(type(error)):
                run_stage(context(tmp_path, epochs=5), FIRST)

    before = told()
    attempt(False, UserError("no"))
    attempt(False, Interrupted("early"))
    assert told() == before != 5
    attempt(True, Interrupted("late"))
    assert told() == 5
    run_stage(context(tmp_path), FIRST)
    assert told() == before and not run.working_config.exists(), "the change was undone"
    attempt(True, Interrupted("late"))
    run_stage(context(tmp_path, epochs=5), FIRST)
    assert told() == 5 and not run.working_config.exists()


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
