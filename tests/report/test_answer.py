"""What the page says first: what the network takes of its budget, and how far the run has come."""

import re
from pathlib import Path

import pytest

from pipeline.artifacts.document import Percentiles
from pipeline.report.contents import read_contents
from pipeline.report.summary import summarize
from pipeline.whole_files import write_text
from tests.artifacts.made import made_card
from tests.report.made_run import add_budgets, made_run
from tests.report.parsed_page import Parsed, page_of


@pytest.mark.parametrize(("p95_ms", "told"), [(1.1, "p95 and p99 exceed it"), (0.95, "p99 exceeds it")])
def test_percentiles_that_the_budget_is_not_for_are_told_when_they_are_over_it(
    tmp_path: Path, p95_ms: float, told: str
) -> None:
    run = made_run(tmp_path)
    made_card(measured_ms=Percentiles(p50=0.9, p95=p95_ms, p99=1.2)).write(run.model_card)
    assert f"the budget is for p50, and {told}" in "".join(Parsed(page_of(run)).text)


@pytest.mark.parametrize(("noise_floor", "shown"), [(0.0049, "0.5%"), (0.0514, "5.1%")])
def test_page_and_closing_table_show_the_same_noise_floor(tmp_path: Path, noise_floor: float, shown: str) -> None:
    run, card = made_run(tmp_path), made_card(noise_floor=noise_floor)
    card.write(run.model_card)
    assert summarize(card)["noise floor"].split(":")[0] == shown
    told = re.findall(r"noise floor ([0-9.]+%)", "".join(Parsed(page_of(run)).text))
    assert set(told) == {shown}, "in the facts, and in what makes it provisional"


def test_several_budgets_have_a_table_with_the_accuracy_of_those_that_were_trained(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    add_budgets(run)
    budgets = read_contents(run, tmp_path / "pipeline.toml").budgets
    found = [(one.budget_ms, one.metrics and one.metrics.test_accuracy) for one in budgets]
    assert found == [(0.25, None), (0.5, 0.75), (1.0, 0.9)]
    text = "".join(Parsed(page_of(run)).text)
    assert "not trained" in text and "75.00%" in text


def test_a_search_under_way_is_not_called_made(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    for path in (run.genotype, run.certificate, run.selection, run.metrics, run.model_card, run.weights):
        path.unlink(missing_ok=True)
    begun = "".join(Parsed(page_of(run)).text)
    assert "A search has begun and is not done" in begun and "Next: pipeline search" in begun
    write_text(run.alphas, "found")
    made = "".join(Parsed(page_of(run)).text)
    assert "A search was made" in made and "Next: pipeline discretize" in made
