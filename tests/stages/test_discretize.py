"""The discretize stage on a fake device: its files, several budgets, the classic rule, evidence, and bad input."""

import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pipeline.artifacts.alphas import Alphas
from pipeline.artifacts.certificate import Certificate
from pipeline.artifacts.network import ChosenNetwork
from pipeline.budget.targets import make_targets, skeleton_grid
from pipeline.cli.stages import Command
from pipeline.config import Config
from pipeline.config_file import make_config
from pipeline.console import progress_bar
from pipeline.errors import PromiseBroken, UserError
from pipeline.rundir import RunDir, refused_budgets
from pipeline.selection.evolution import Evolution
from pipeline.selection.records import TableState
from pipeline.selection.short_training import train_shortly
from pipeline.selection.trials import FEWEST_TRIALS
from pipeline.space.choices import choices_of
from pipeline.space.extremes import cheapest_genotype, costliest_genotype
from pipeline.space.genotype import genotype_from_record
from pipeline.space.genotype_file import read_genotype
from pipeline.space.plan import count_macs
from pipeline.space.sampling import random_genotype
from pipeline.space.score import argmax_genotype, genotype_score
from pipeline.space.skeleton import Skeleton
from pipeline.space.spaces import space_named
from pipeline.stages.context import Context
from pipeline.stages.discretize import Prospect, _with_bar, discretize
from pipeline.whole_files import read_json
from tests.latency.fakes import FINGERPRINT
from tests.selection.fakes import DARTS, FakeDevice, FakePredictor
from tests.selection.test_judged import judge, planted_loss

SKELETON = Skeleton("darts", 3, 8, 16, 10, in_channels=1)


def bounds_ms() -> tuple[float, float]:
    costs = FakePredictor(SKELETON).costs()
    return costs.of(cheapest_genotype(DARTS, costs)), costs.of(costliest_genotype(DARTS, costs))


def budget_at(share: float) -> float:
    low, high = bounds_ms()
    return round(low + share * (high - low), 3)


def make_context(folder: Path, seed: int = 0, **sections: dict[str, Any]) -> Context:
    target = {"cells": 3, "channels": 8, "max_macs": 0, "budget_ms": budget_at(0.25), **sections.pop("target", {})}
    choosing = {"evidence_minutes": 0.0, **sections.pop("discretize", {})}
    config: Config = make_config({"target": target, "discretize": choosing, **sections}, "the test")
    context = Context(config, RunDir(folder, "test"))
    rng = np.random.default_rng(seed)
    space = space_named(config.target.space)
    shapes = [(len(kind.edges), len(kind.operations)) for kind in space.kinds]
    alphas = tuple(torch.from_numpy(rng.normal(size=shape)).float() for shape in shapes)
    context.write(Alphas(space, "off", alphas, tuple(torch.ones(shape) for shape in shapes)))
    return context


def run_with(context: Context, device: FakeDevice, validated: bool = True) -> None:
    grids = context.config.discretize
    skeletons = skeleton_grid(SKELETON, grids.cells_grid, grids.channels_grid)
    targets = make_targets(skeletons, FakePredictor)
    discretize(context, Prospect(targets, TableState(validated), device, FINGERPRINT))


def test_the_three_files_agree(tmp_path: Path) -> None:
    context = make_context(tmp_path)
    run_with(context, FakeDevice(lambda ms: 1.1 * ms))
    run, budget = context.run, context.config.target.budget_ms
    genotype, certificate, selection = read_genotype(run.genotype), read_json(run.certificate), read_json(run.selection)
    predicted = FakePredictor(SKELETON).predict(genotype).ms
    assert certificate["predicted_ms"] == pytest.approx(predicted)
    assert certificate["measured_ms"]["p50"] == pytest.approx(1.1 * predicted)
    assert certificate["measured_ms"]["p50"] <= budget == certificate["budget_ms"]
    assert certificate["fits"] is True and certificate["provisional"] is False
    assert [step["fits"] for step in certificate["iterations"]] == [False, True]
    assert selection["skeleton"] == {"space": "darts", "cells": 3, "channels": 8, "resolution": 16, "classes": 10,
                                     "in_channels": 1, "stem": "auto"}  # fmt: skip
    assert selection["chosen"]["macs"] == count_macs(SKELETON, genotype)
    assert [c["verdict"] for c in selection["candidates"]] == ["over budget", "chosen"]
    assert selection["gap"] <= 1e-6 and selection["solve_seconds"] > 0
    chosen = context.read(ChosenNetwork)
    assert (chosen.skeleton, chosen.genotype.record()) == (SKELETON, genotype.record())
    found = context.read(Certificate).require_of(chosen)
    assert (found.budget_ms, found.percentile) == (budget, 50)


def test_selection_records_what_argmax_would_have_chosen(tmp_path: Path) -> None:
    context = make_context(tmp_path)
    run_with(context, FakeDevice(lambda ms: ms))
    found = context.read(Alphas)
    argmax = argmax_genotype(DARTS, found.scores())
    record = read_json(context.run.selection)["argmax"]
    assert genotype_from_record(record["genotype"]) == argmax
    assert record["score"] == pytest.approx(genotype_score(DARTS, found.scores(), argmax), abs=1e-5)
    assert record["predicted_ms"] == pytest.approx(FakePredictor(SKELETON).predict(argmax).ms)
    assert record["within_limits"] is False
    assert record["score"] > read_json(context.run.selection)["chosen"]["score"]


@pytest.mark.parametrize(("share", "marked"), [(0.995, True), (0.985, False)])
def test_a_certificate_within_the_noise_of_its_budget_is_marked(tmp_path: Path, share: float, marked: bool) -> None:
    context = make_context(tmp_path)
    budget_ms = context.config.target.budget_ms
    run_with(context, FakeDevice(lambda ms: share * budget_ms))
    certificate = read_json(context.run.certificate)
    assert certificate["fits"] is True and certificate["within_noise"] is marked
    assert certificate["measured_interval_ms"] == pytest.approx([0.99 * share * budget_ms, 1.01 * share * budget_ms])


@pytest.mark.parametrize(("share", "warned"), [(0.0, True), (0.6, False)])
def test_a_cell_that_scores_below_a_random_one_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], share: float, warned: bool
) -> None:
    """A search that favours convolutions, under a budget without any and under a generous one."""
    context = make_context(tmp_path, target={"budget_ms": 1.0001 * budget_at(share)})
    alphas = [torch.tensor([["conv" in name for name in kind.operations]] * len(kind.edges)) for kind in DARTS.kinds]
    prices = tuple(torch.ones(alpha.shape) for alpha in alphas)
    context.write(Alphas(DARTS, "off", tuple(alpha.float() for alpha in alphas), prices))
    run_with(context, FakeDevice(lambda ms: ms))
    assert ("scores below a random one" in capsys.readouterr().err) is warned


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


@pytest.mark.parametrize(("noise", "warned"), [(0.2, True), (0.0, False)])
def test_a_latency_within_the_noise_of_its_budget_is_said_before_the_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], noise: float, warned: bool
) -> None:
    context = make_context(tmp_path, target={"max_noise_floor": 0.25})
    run_with(context, FakeDevice(lambda ms: ms, [noise]))
    assert ("is within the noise: p50 lies between" in capsys.readouterr().err.replace("\n", " ")) is warned


def test_noise_and_an_unvalidated_table_make_a_certificate_provisional(tmp_path: Path) -> None:
    context = make_context(tmp_path, target={"max_noise_floor": 0.25})
    run_with(context, FakeDevice(lambda ms: ms, [0.1]))
    assert read_json(context.run.certificate)["provisional"] is True
    run_with(context, FakeDevice(lambda ms: ms, [0.01]), validated=False)
    assert read_json(context.run.certificate)["provisional"] is True


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
    command = Command("discretize", tmp_path / "pipeline.toml", "test", {})
    with pytest.raises(PromiseBroken, match=f"no network keeps {0.5 * low:g} ms; what was certified for the other"):
        command.execute()
    said = capsys.readouterr().err
    assert "`pipeline retrain` trains the network of" in said and "next: " not in said, "the error has the last word"
    shutil.rmtree(context.run.genotype.parent / f"{0.5 * low:g}ms")
    command.execute()


def test_a_broken_promise_leaves_what_was_there(tmp_path: Path) -> None:
    context = make_context(tmp_path)
    run_with(context, FakeDevice(lambda ms: ms))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(PromiseBroken, match="cannot be kept"):
        run_with(context, FakeDevice(lambda ms: ms + 1000))
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_contradicting_limits_are_named(tmp_path: Path) -> None:
    with pytest.raises(PromiseBroken, match=r"max_macs = 0\.00 M MACs cannot be kept"):
        run_with(make_context(tmp_path, target={"max_macs": 1000}), FakeDevice(lambda ms: ms))
    device = FakeDevice(lambda ms: ms)
    with pytest.raises(PromiseBroken, match=r"budget_ms = .* cannot be kept"):
        run_with(make_context(tmp_path, target={"budget_ms": 0.01}), device)
    assert len(device.calls) == 1  # the fastest network was measured to prove it


def test_a_grid_fills_the_budget(tmp_path: Path) -> None:
    sizes = []
    for budget in (1.2, 6.0, 60.0):
        context = make_context(
            tmp_path, target={"budget_ms": budget}, discretize={"channels_grid": [8, 16], "cells_grid": [3, 5]}
        )
        run_with(context, FakeDevice(lambda ms: ms))
        chosen = context.read(ChosenNetwork)
        sizes.append((chosen.skeleton.cells, chosen.skeleton.channels))
        assert len(read_json(context.run.selection)["sizes"]) >= 1
    assert sizes[0] == (3, 8)
    assert sizes[-1] == (5, 16)


def test_argmax_is_taken_if_it_fits_and_refused_otherwise(tmp_path: Path) -> None:
    context = make_context(tmp_path, target={"budget_ms": 100.0}, discretize={"rule": "argmax"})
    run_with(context, FakeDevice(lambda ms: ms))
    selection = read_json(context.run.selection)
    assert selection["chosen"]["genotype"] == selection["argmax"]["genotype"]
    with pytest.raises(PromiseBroken, match="cannot be kept"):
        run_with(make_context(tmp_path, discretize={"rule": "argmax"}), FakeDevice(lambda ms: ms))


def test_the_bar_of_an_evolution_that_finds_none_better_ends_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    bar = progress_bar()
    monkeypatch.setattr("pipeline.stages.discretize.progress_bar", lambda transient: bar)
    start = choices_of(DARTS, random_genotype("darts", np.random.default_rng(0)))
    found = Evolution(DARTS, lambda one: float(one == start), 40, 0, _with_bar).evolve([start], lambda _: True)
    assert 1 < len(found) < 40
    assert bar.tasks[0].finished and bar.tasks[0].completed == bar.tasks[0].total == len(found)


EVIDENCE = {"evidence_minutes": 1e-6, "evidence_steps": 2, "evaluations": 20}


def test_evidence_is_gathered_shown_and_survives_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is killed after a few trainings goes on with the next, and chooses what an unbroken run chooses."""
    few: dict[str, Any] = {
        "data": {"validation_share": 0.03, "augment": "none"},
        "compute": {"threads": 1},
        "search": {"channels": 4},
        "discretize": EVIDENCE,
    }
    monkeypatch.setattr("pipeline.stages.discretize._POOL", 10)
    monkeypatch.setattr("pipeline.stages.judgement.guessing_loss", lambda _: math.inf)  # two steps learn nothing
    whole = make_context(tmp_path / "whole", **few)
    run_with(whole, FakeDevice(lambda ms: 0.99 * ms))
    selection = read_json(whole.run.selection)
    rows = {row["source"]: row for row in selection["evidence"]}
    assert {"alpha", "synflow", "naswot", "macs", "structure", "all together"} <= set(rows)
    assert all(row["low"] <= row["tau"] <= row["high"] for row in rows.values())
    assert all(rows[name]["weight"] == 0 for name in ("synflow", "naswot", "params") if rows[name]["tau"] <= 0)
    earned = sum(row["weight"] or 0.0 for name, row in rows.items() if name != "alpha")
    assert rows["structure"]["weight"] == 0 and earned <= rows["alpha"]["weight"] + 1e-9
    assert read_json(whole.run.certificate)["measured_ms"]["p50"] <= whole.config.target.budget_ms
    fitting = [one for one in selection["candidates"] if one["verdict"] != "over budget"]
    assert selection["chosen"]["judged"] == max(one["judged"] for one in fitting), "the figure that decides"
    assert selection["argmax"]["judged"] is not None
    trained = whole.run.evidence.read_text().splitlines()
    assert len(trained) == 1 + FEWEST_TRIALS

    killed, calls = make_context(tmp_path / "killed", **few), []

    def train(*arguments: Any) -> float:
        calls.append(arguments[1])
        if len(calls) == 3:  # amid those that are spread out, which are asked for together
            raise KeyboardInterrupt
        return train_shortly(*arguments)

    monkeypatch.setattr("pipeline.stages.judgement.train_shortly", train)
    with pytest.raises(KeyboardInterrupt):
        run_with(killed, FakeDevice(lambda ms: 0.99 * ms))
    run_with(killed, FakeDevice(lambda ms: 0.99 * ms))
    assert len(calls) == FEWEST_TRIALS + 1
    assert read_json(killed.run.genotype) == read_json(whole.run.genotype)
    assert read_json(killed.run.selection)["evidence"] == selection["evidence"]


def test_without_evidence_alpha_and_the_judged_networks_decide_together(tmp_path: Path) -> None:
    """A judgement that contradicts alpha is heard, without a single training."""
    by_alpha, by_both = (make_context(tmp_path / name, discretize={"evaluations": 50}) for name in ("alpha", "both"))
    by_both.write(judge(60, 0.0))
    for context in (by_alpha, by_both):
        run_with(context, FakeDevice(lambda ms: 0.99 * ms))
    ours, theirs = (read_genotype(context.run.genotype) for context in (by_both, by_alpha))
    assert planted_loss(ours) < planted_loss(theirs)
    assert read_json(by_both.run.certificate)["measured_ms"]["p50"] <= by_both.config.target.budget_ms
    assert read_json(by_both.run.selection)["evidence"] == [] and not by_both.run.evidence.exists()


def test_bad_input(tmp_path: Path) -> None:
    device = FakeDevice(lambda ms: ms)
    with pytest.raises(UserError, match="names 5 ms twice"):
        run_with(make_context(tmp_path, discretize={"budgets_ms": [5.0, 3.0, 5.0]}), device)
    with pytest.raises(UserError, match="more than 0 and at most"):
        make_context(tmp_path, discretize={"budgets_ms": [-1.0]})
    context = make_context(tmp_path, target={"space": "nasbench201"})
    other = make_context(tmp_path)
    other.write(Alphas(space_named("nasbench201"), "off", (torch.zeros(6, 5),), (torch.ones(6, 5),)))
    with pytest.raises(UserError, match="is of the space 'nasbench201'"):
        run_with(other, device)
    context.write(Alphas(space_named("nasbench201"), "off", (torch.full((6, 5), torch.nan),), (torch.ones(6, 5),)))
    with pytest.raises(UserError, match="not finite"):
        run_with(context, device)
    assert device.calls == []


def test_files_of_another_network_are_not_trained(tmp_path: Path) -> None:
    context = make_context(tmp_path)
    with pytest.raises(UserError, match="pipeline discretize"):
        context.read(ChosenNetwork)
    run_with(context, FakeDevice(lambda ms: ms))
    certificate = context.read(Certificate)
    run_with(make_context(tmp_path, seed=1), FakeDevice(lambda ms: ms))
    with pytest.raises(UserError, match="another network"):
        certificate.require_of(context.read(ChosenNetwork))
    context.run.genotype.write_text('{"space": "darts"}')
    with pytest.raises(UserError):
        context.read(ChosenNetwork)
