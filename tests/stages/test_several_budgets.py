"""Discretize for several budgets: files of each, which one is trained, and what is said of those that add nothing."""

import shutil
from pathlib import Path

import pytest

from pipeline.artifacts.alphas import Alphas
from pipeline.cli.invocation import Invocation
from pipeline.errors import PromiseBroken
from pipeline.rundir import refused_budgets
from pipeline.space.genotype_file import read_genotype
from pipeline.space.score import argmax_genotype
from pipeline.whole_files import read_json
from tests.selection.fakes import DARTS, FakeDevice, FakePredictor
from tests.stages.made_search import SKELETON, bounds_ms, budget_at, make_context, run_with


def test_every_budget_gets_its_files_and_the_target_budget_is_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    budgets = [budget_at(share) for share in (0.4, 0.1, 0.25)]
    context = make_context(tmp_path, discretize={"budgets_ms": budgets})
    run_with(context, FakeDevice(lambda ms: ms))
    folder = context.run.genotype.parent
    scores = []
    for budget in sorted(budgets):
        own = folder / f"{budget:g}ms"
        assert read_json(own / "certificate.json")["measured_ms"]["p50"] <= budget
        scores.append(read_json(own / "selection.json")["chosen"]["score"])
        read_genotype(own / "genotype.json")
    assert scores == sorted(scores)
    assert read_json(context.run.certificate)["budget_ms"] == budget_at(0.25)
    assert "rising order" in capsys.readouterr().err


def test_the_largest_budget_that_fits_is_trained_when_the_target_budget_is_not_asked(tmp_path: Path) -> None:
    low, _ = bounds_ms()
    hopeless, small, large = 0.5 * low, budget_at(0.1), budget_at(0.3)
    context = make_context(tmp_path, discretize={"budgets_ms": [hopeless, small, large]})
    run_with(context, FakeDevice(lambda ms: ms))
    assert read_json(context.run.certificate)["budget_ms"] == large
    refused = context.run.genotype.parent / f"{hopeless:g}ms"
    assert read_json(refused / "refusal.json")["iterations"][-1]["fits"] is False
    assert not (refused / "genotype.json").exists()
    assert refused_budgets(context.run) == [pytest.approx(hopeless)]


def test_a_command_fails_when_one_of_several_budgets_was_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was certified for the others stays; a script goes by the exit code."""
    low, _ = bounds_ms()
    budgets = [0.5 * low, budget_at(0.1), budget_at(0.3)]
    context = make_context(tmp_path, discretize={"budgets_ms": budgets})
    run_with(context, FakeDevice(lambda ms: ms))
    monkeypatch.setattr("pipeline.runner.opening.open_run", lambda *_: context)
    monkeypatch.setattr("pipeline.runner.execution.run_stage", lambda *_: None)
    command = Invocation("discretize", tmp_path / "pipeline.toml", "test", {})
    with pytest.raises(PromiseBroken, match=f"no network keeps {0.5 * low:g} ms; what was certified for the other"):
        command.execute()
    said = capsys.readouterr().err
    assert "`pipeline retrain` trains the network of" in said and "next: " not in said, "the error has the last word"
    shutil.rmtree(context.run.genotype.parent / f"{0.5 * low:g}ms")
    command.execute()


def test_a_budget_that_is_hardly_used_and_one_that_has_the_network_of_another_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beyond the best network there is nothing to use a budget for."""
    best = FakePredictor(SKELETON).predict(argmax_genotype(DARTS, make_context(tmp_path).read(Alphas).scores())).ms
    for budgets, said in (
        ([1.1 * best], None),
        (
            [2.0 * best],
            f"{2 * best:g} ms has a network that leaves 50% of it: none that takes longer was judged better",
        ),
        ([1.1 * best, 1.2 * best], f"{1.2 * best:g} ms has the network of {1.1 * best:g} ms: none that takes"),
    ):
        run_with(make_context(tmp_path, discretize={"budgets_ms": budgets}), FakeDevice(lambda ms: ms))
        heard = " ".join(capsys.readouterr().err.split())
        assert said in heard if said else "judged better" not in heard
