"""The discretize stage on a fake device: its files, its certificate, the classic rule, and bad input."""

from pathlib import Path

import numpy as np
import pytest
import torch

from pipeline.artifacts.alphas import Alphas
from pipeline.artifacts.certificate import Certificate
from pipeline.artifacts.network import ChosenNetwork
from pipeline.console import progress_bar
from pipeline.errors import PromiseBroken, UserError
from pipeline.selection.evolution import Evolution
from pipeline.space.choices import choices_of
from pipeline.space.genotype import genotype_from_record
from pipeline.space.genotype_file import read_genotype
from pipeline.space.plan import count_macs
from pipeline.space.sampling import random_genotype
from pipeline.space.score import argmax_genotype, genotype_score
from pipeline.space.spaces import space_named
from pipeline.stages.discretize import _with_bar
from pipeline.whole_files import read_json
from tests.selection.fakes import DARTS, FakeDevice, FakePredictor
from tests.stages.made_search import SKELETON, budget_at, make_context, run_with


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
