"""Several budgets of one run: each has files of its own, and the export for another one is named."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipeline.artifacts.certificate import Certificate
from pipeline.artifacts.files import DeployedModel
from pipeline.artifacts.network import ChosenNetwork
from pipeline.artifacts.stage_record import StageRecord
from pipeline.errors import UserError
from pipeline.rundir import RunDir
from pipeline.runner import execution
from pipeline.runner.artifacts import check_inputs
from pipeline.runner.execution import run_all, run_stage
from pipeline.runner.opening import open_run, take_budget
from pipeline.runner.redoing import endangered_training, outlived_export, replaced_export
from pipeline.stages import Stage, stage_named
from pipeline.whole_files import sha256_of, write_text
from tests.artifacts.made import NETWORK, made_card, made_certificate
from tests.runner.conftest import FIRST, Calls, Person, contents, context, took


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


def test_a_choice_made_again_says_first_what_training_it_may_cost(calls: Calls, tmp_path: Path) -> None:
    """As `discretize --budget-ms 5,40` on a run whose network for 40 ms was trained."""
    given, chooser = context(tmp_path), stage_named("discretize")
    choose(tmp_path, 40.0)
    assert not endangered_training(given, chooser), "nothing is trained"
    run_all(given)
    took(tmp_path, "retrain", 640.0)
    record = StageRecord.read(given.run.record("retrain"))
    trained = record.model_copy(update={"inputs": {"genotype": sha256_of(given.run.genotype)}})
    trained.write(given.run.record("retrain"))
    assert "the trained one (0:10:40 of training)" in endangered_training(given, chooser)
    assert not endangered_training(given, stage_named("export")), "which chooses nothing"
    write_text(given.run.genotype, given.run.genotype.read_text() + "\n")
    assert not endangered_training(given, chooser), "it is not the chosen one as it is"
