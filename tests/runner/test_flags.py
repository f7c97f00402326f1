"""Flags: which commands keep theirs for later ones, and which take them back."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipeline.errors import Interrupted, PromiseBroken, UserError
from pipeline.runner import execution
from pipeline.runner.execution import run_all, run_stage
from pipeline.stages import TRANSFER, stage_named
from pipeline.stages.context import Context
from pipeline.whole_files import read_json, write_json
from tests.runner.conftest import FIRST, Calls, Person, contents, context, took

SEARCH_FLAGS = {"search": {"epochs": 3}}


def with_retrain_epochs(folder: Path, epochs: int) -> Context:
    """The run as a flag asks for it that the second stage alone depends on."""
    given = context(folder)
    retrain = given.config.retrain.model_copy(update={"epochs": epochs})
    config = given.config.model_copy(update={"retrain": retrain})
    return replace(given, config=config, flags={"retrain": {"epochs": epochs}})


def test_flags_of_an_interrupted_first_attempt_hold_for_the_next_and_those_of_a_redo_do_not(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was saved goes on with the same settings only; a finished stage stays what it was."""

    def stop(_: Context) -> None:
        raise Interrupted("interrupted: step 3 saved")

    module = execution._module
    for is_finished in (False, True):
        if is_finished:
            monkeypatch.setattr(execution, "_module", module)
            run_stage(context(tmp_path), FIRST)
        context(tmp_path).run.flags.unlink(missing_ok=True)
        monkeypatch.setattr(execution, "_module", lambda _: SimpleNamespace(run=stop))
        with pytest.raises(Interrupted):
            run_stage(replace(context(tmp_path, epochs=3), flags={"search": {"epochs": 3}}), FIRST)
        assert context(tmp_path).run.flags.is_file() is not is_finished


def test_flags_of_a_first_attempt_are_there_while_it_works_so_that_a_kill_leaves_them(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal takes them back, together with the run that it would have begun."""
    seen = []

    def refuse(mine: Context) -> None:
        seen.append(read_json(mine.run.flags))
        raise PromiseBroken("no network keeps 0.1 ms")

    monkeypatch.setattr(execution, "_module", lambda _: SimpleNamespace(run=refuse))
    asked = replace(context(tmp_path, epochs=3), flags={"search": {"epochs": 3}})
    with pytest.raises(PromiseBroken):
        run_stage(asked, FIRST)
    assert seen == [{"search": {"epochs": 3}}]
    assert not asked.run.flags.exists()


def test_a_refused_first_attempt_leaves_the_flags_of_commands_before_it(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = replace(context(tmp_path, epochs=3), flags={"search": {"epochs": 3}})
    write_json(asked.run.flags, {"target": {"budget_ms": 2.0}})

    def refuse(_: Context) -> None:
        raise PromiseBroken("no network keeps 0.1 ms")

    monkeypatch.setattr(execution, "_module", lambda _: SimpleNamespace(run=refuse))
    with pytest.raises(PromiseBroken):
        run_stage(asked, FIRST)
    assert read_json(asked.run.flags) == {"target": {"budget_ms": 2.0}}


@pytest.mark.parametrize("end", ["declined", "refused"])
def test_flags_of_a_run_that_comes_to_nothing_are_not_kept_though_its_first_stage_was_up_to_date(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """Else the next plain `pipeline run` goes by what was declined, or fails as this one did."""
    run_all(context(tmp_path))
    took(tmp_path, "retrain", 7000.0)
    before = contents(tmp_path)

    def refuse(_: Context) -> None:
        raise PromiseBroken("no network keeps 0.1 ms")

    if end == "declined":
        Person(monkeypatch, "n")
    else:
        monkeypatch.setattr(execution, "_module", lambda _: SimpleNamespace(run=refuse))
    with pytest.raises((UserError, PromiseBroken)):
        run_all(with_retrain_epochs(tmp_path, 3))
    assert contents(tmp_path) == before


def test_flags_of_a_run_are_kept_from_the_first_stage_that_was_made_by_them(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new run whose second stage is refused: only flags of the first, which is there to stay, hold."""
    module = execution._module

    def refuse(_: Context) -> None:
        raise PromiseBroken("no network keeps 0.1 ms")

    monkeypatch.setattr(
        execution, "_module", lambda stage: module(stage) if stage is FIRST else SimpleNamespace(run=refuse)
    )
    flags = context(tmp_path).run.flags
    for given in (with_retrain_epochs(tmp_path, 3), replace(context(tmp_path, epochs=3), flags=SEARCH_FLAGS)):
        assert not flags.exists()
        with pytest.raises(PromiseBroken):
            run_all(given)
    assert calls == ["search", "search"] and read_json(flags) == SEARCH_FLAGS


def test_a_genotype_from_elsewhere_is_kept_as_a_flag_once_its_stage_is_done() -> None:
    assert TRANSFER.depends_on("retrain", "genotype") and not TRANSFER.depends_on("retrain", "epochs")
    assert stage_named("search").depends_on("target", "budget_ms")
    assert not stage_named("profile").depends_on("target", "budget_ms")
