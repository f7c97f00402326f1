"""What discretize judges by: evidence of short trainings, which survive a kill, or the search alone."""

import math
from pathlib import Path
from typing import Any

import pytest

from pipeline.selection.short_training import train_shortly
from pipeline.selection.trials import FEWEST_TRIALS
from pipeline.space.genotype_file import read_genotype
from pipeline.whole_files import read_json
from tests.selection.fakes import FakeDevice
from tests.selection.test_judged import judge, planted_loss
from tests.stages.made_search import make_context, run_with

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
    assert {"alpha", "synflow", "naswot", "macs", "all together"} <= set(rows)
    assert all(row["low"] <= row["tau"] <= row["high"] for row in rows.values())
    assert all(rows[name]["weight"] == 0 for name in ("synflow", "params") if rows[name]["tau"] <= 0)
    trusted = rows.pop("alpha")["weight"]
    assert trusted >= 0.5 and sum(row["weight"] or 0.0 for row in rows.values()) <= trusted + 1e-9
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
