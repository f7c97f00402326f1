"""pipeline rank: genotypes in the order given, a line number for what is broken, and the same figures after a kill."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.config_file import make_config
from pipeline.errors import UserError
from pipeline.rundir import RunDir
from pipeline.search.engine import Search
from pipeline.selection.earned_weights import place_score
from pipeline.space.sampling import random_genotype
from pipeline.stages.context import Context
from pipeline.stages.findings import findings_of
from pipeline.stages.judgement import make_sources
from pipeline.stages.rank import rank, read_genotypes
from tests.selection.test_judged import judge
from tests.stages.made_search import make_context as make_searched

FEW: dict[str, dict[str, Any]] = {
    "data": {"validation_share": 0.03, "augment": "none"},
    "compute": {"threads": 1},
    "target": {"space": "nasbench201", "cells": 3, "channels": 8},
    "search": {"channels": 4},
    "discretize": {"evidence_minutes": 1e-6, "evidence_steps": 2, "rank_minutes": 0.0},
}

# ranked by a search of its own
FREE: dict[str, dict[str, Any]] = {
    "data": {"validation_share": 0.5, "augment": "none"},
    "discretize": {"evidence_minutes": 0.0, "rank_minutes": 1.0},
}


UNHEARD = ("macs", "params", "synflow", "progressivity")
PROXIES_ALONE = {"naswot": 0.5, "expressivity": 0.5, **dict.fromkeys(UNHEARD, 0.0)}
PROXIES_UNHEARD = dict.fromkeys(PROXIES_ALONE, 0.0)


def make_context(folder: Path, **more: dict[str, Any]) -> Context:
    return Context(make_config({**FEW, **more}, "the test"), RunDir(folder, "test"))


def write_lines(folder: Path, count: int = 12, space: str = "nasbench201") -> Path:
    generator, path = np.random.default_rng(0), folder / "genotypes.jsonl"
    lines = [json.dumps(random_genotype(space, generator).record()) for _ in range(count)]
    path.write_text("\n".join([*lines[:3], "", *lines[3:]]) + "\n")
    return path


def test_every_line_gets_a_score_and_figures_in_the_order_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.stages.judgement.guessing_loss", lambda _: math.inf)  # two steps learn nothing
    path = write_lines(tmp_path)
    found = rank(make_context(tmp_path), path)
    assert [row["line"] for row in found["genotypes"]] == [1, 2, 3, *range(5, 14)]  # the fourth is blank
    assert {"macs", "params", "synflow", "naswot", "expressivity", "progressivity"} == set(
        found["genotypes"][0]["sources"]
    )
    assert set(found["weights"]) == {*found["genotypes"][0]["sources"], "ln macs"}
    assert (
        min(found["weights"][name] for name in ("naswot", "expressivity")) >= 0.5 and found["weights"]["ln macs"] == 1
    )
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    (ledger,) = (tmp_path / "runs" / "test" / "rank").glob("*.jsonl")
    before = ledger.read_text()
    assert rank(make_context(tmp_path), path) == found, "what was trained is read back"
    assert ledger.read_text() == before


DEAD = "|nor_conv_3x3~0|+|none~0|none~1|+|none~0|none~1|none~2|"


def test_a_network_that_ignores_its_input_comes_last_and_is_not_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.stages.judgement.guessing_loss", lambda _: math.inf)
    path, record = write_lines(tmp_path), json.dumps({"space": "nasbench201", "cell": DEAD})
    path.write_text(record + "\n" + path.read_text())
    found = rank(make_context(tmp_path), path)
    dead, *others = found["genotypes"]
    assert set(dead["sources"].values()) == {None} and dead["score"] < min(row["score"] for row in others)
    (ledger,) = (tmp_path / "runs" / "test" / "rank").glob("*.jsonl")
    assert DEAD not in ledger.read_text()
    path.write_text(f"{record}\n{record}\n")
    with pytest.raises(UserError, match="hears its input"):
        rank(make_context(tmp_path), path)


def test_without_short_trainings_what_is_trusted_ranks_with_and_without_a_search(tmp_path: Path) -> None:
    path = write_lines(tmp_path, 8, "darts")  # so few leave it open whether the search agrees with the proxies
    searched = make_searched(tmp_path)  # evidence_minutes = 0
    alone = rank(searched, path)
    heard = {"alpha": 0.5}
    assert alone["weights"] == {**heard, **PROXIES_UNHEARD, "ln macs": 1.0}
    figures = {name: np.array([row["sources"][name] for row in alone["genotypes"]]) for name in (*heard, "macs")}
    expected = np.log(figures["macs"]) - np.log(figures["macs"]).mean()
    expected += sum(0.5 * np.array([place_score(figures[name], one) for one in figures[name]]) for name in heard)
    assert [row["score"] for row in alone["genotypes"]] == pytest.approx(expected.tolist())
    searched.write(judge(20, 0.1))
    both = rank(searched, path)
    assert both["weights"] == {"supernet": 0.5, **alone["weights"]}
    assert [row["score"] for row in both["genotypes"]] != [row["score"] for row in alone["genotypes"]]
    assert not (searched.run.root / "rank").exists(), "nothing was trained"
    nothing = {"discretize": {"evidence_minutes": 0.0, "rank_minutes": 0.0}}
    unsearched = rank(make_context(tmp_path / "new", **nothing), write_lines(tmp_path))
    assert unsearched["weights"] == {**PROXIES_ALONE, "ln macs": 1.0}


def test_a_run_that_has_not_searched_is_ranked_by_a_search_without_a_budget_which_is_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_lines(tmp_path, 8)
    monkeypatch.setattr("pipeline.stages.free_search.affordable_epochs", lambda *_: 2)
    monkeypatch.setattr("pipeline.search.guards.FEW_STEPS", 0)
    planned = rank(make_context(tmp_path, **FREE), path)
    assert planned["weights"] == {"alpha": 0.5, "supernet": 0.5, **PROXIES_UNHEARD, "ln macs": 1.0}
    scores = [row["score"] for row in planned["genotypes"]]
    assert len(set(scores)) > 1
    (folder,) = (tmp_path / "runs" / "test" / "rank").glob("search-*")
    assert {one.name for one in folder.iterdir()} >= {"alphas.safetensors", "judged.safetensors", "plan.json"}
    assert not (folder / "checkpoint").exists() and not (tmp_path / "runs" / "test" / "search").exists()
    monkeypatch.setattr("pipeline.stages.free_search.run_search", lambda *_: pytest.fail("it was made before"))
    assert rank(make_context(tmp_path, target={**FEW["target"], "budget_ms": 9.0}, **FREE), path) == planned


def test_a_search_without_a_budget_goes_on_as_it_was_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.stages.free_search.affordable_epochs", lambda *_: 2)
    monkeypatch.setattr("pipeline.search.guards.FEW_STEPS", 0)
    expected = rank(make_context(tmp_path / "whole", **FREE), write_lines(tmp_path))

    class Killed(Exception):
        pass

    def kill(self: Search) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Search, "end_epoch", kill)
        with pytest.raises(Killed):
            rank(make_context(tmp_path / "killed", **FREE), write_lines(tmp_path))
    monkeypatch.setattr("pipeline.stages.free_search.affordable_epochs", lambda *_: pytest.fail("planned before"))
    assert rank(make_context(tmp_path / "killed", **FREE), write_lines(tmp_path)) == expected


@pytest.mark.parametrize("content", ["[]", "{}", '{"epochs": "many"}', '{"epochs": 0}'])
def test_a_damaged_plan_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    monkeypatch.setattr("pipeline.stages.free_search.affordable_epochs", lambda *_: 2)
    monkeypatch.setattr("pipeline.stages.free_search._make_search", lambda *_: pytest.fail("no search to plan for"))
    with pytest.raises(pytest.fail.Exception):
        rank(make_context(tmp_path, **FREE), write_lines(tmp_path))
    (plan,) = (tmp_path / "runs" / "test" / "rank").glob("search-*/plan.json")
    plan.write_text(content)
    with pytest.raises(UserError, match=r"plan.json is damaged"):
        rank(make_context(tmp_path, **FREE), write_lines(tmp_path))


def test_minutes_that_allow_a_short_search_only_make_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("pipeline.stages.free_search.affordable_epochs", lambda *_: 2)
    found = rank(make_context(tmp_path, **FREE), write_lines(tmp_path))
    assert found["weights"] == {**PROXIES_ALONE, "ln macs": 1.0}
    assert "it is not made, for it would be a short search" in " ".join(capsys.readouterr().err.split())
    assert not list((tmp_path / "runs" / "test" / "rank").glob("search-*/*.safetensors"))


@pytest.mark.parametrize(("steps", "trusts"), [(1999, False), (2000, True), (None, True)])
def test_what_a_short_search_found_is_not_trusted(tmp_path: Path, steps: int | None, trusts: bool) -> None:
    searched = make_searched(tmp_path)
    searched.write(replace(judge(20, 0.1), steps_per_operation=steps))
    assert make_sources(searched, findings_of(searched)).trusts_search == trusts


def test_trainings_that_learn_nothing_leave_it_to_what_is_trusted(tmp_path: Path) -> None:
    assert rank(make_context(tmp_path), write_lines(tmp_path))["weights"] == {**PROXIES_ALONE, "ln macs": 1.0}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "holds 0 genotypes"),
        ("{}\n", "line 1 is not a genotype"),
        ("not json\n", "line 1 is not JSON"),
        ('{"space": "darts"}\n', "line 1 is not a darts genotype"),
    ],
)
def test_bad_files_name_the_line(tmp_path: Path, content: str, sentence: str) -> None:
    path = tmp_path / "g.jsonl"
    path.write_text(content)
    with pytest.raises(UserError, match=sentence):
        read_genotypes(path, "nasbench201")


def test_a_genotype_of_another_space_and_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"line 1 is of the space 'darts', but \[target\] space = 'nasbench201'"):
        read_genotypes(write_lines(tmp_path, 3, "darts"), "nasbench201")
    with pytest.raises(UserError, match="No such file"):
        read_genotypes(tmp_path / "none.jsonl", "darts")
