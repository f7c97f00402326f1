"""Finished work is asked about before it is made again, and nobody is asked needlessly."""

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipeline.artifacts.files import Images
from pipeline.artifacts.latency_table import LatencyTable
from pipeline.errors import PromiseBroken, UserError
from pipeline.latency.table import table_name
from pipeline.latency.target import TargetMachine
from pipeline.runner import execution
from pipeline.runner.execution import run_all, run_stage
from pipeline.runner.redoing import confirm_redo
from pipeline.whole_files import write_text
from tests.latency.fakes import FINGERPRINT, FakeDevice
from tests.latency.made import SKELETON, made_table
from tests.runner.conftest import FIRST, SECOND, Calls, Person, contents, context, took


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
