"""What the page says of why this network was chosen, and when it doubts it."""

import json
from pathlib import Path

from pipeline.artifacts.selection import Selection
from pipeline.space.genotype import genotype_from_record
from tests.report.made_run import POOLS, made_run
from tests.report.parsed_page import Parsed, page_of


def test_a_short_search_is_doubted_where_its_choice_is_explained(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    assert "a short search" not in "".join(Parsed(page_of(run)).text)
    history = run.latest_history("search")
    entries = [{"step": 0, "steps_per_operation": 68}, *map(json.loads, history.read_text().splitlines())]
    history.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    text = "".join(Parsed(page_of(run)).text)
    assert "is not trusted here, for it was a short search: each operation takes part in about 68 weight steps" in text


def test_evidence_that_chance_may_explain_is_said_and_who_is_trusted_beside_it(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    selection = Selection.read(run.selection)
    weak = selection.evidence[-1].model_copy(update={"low": -0.1})
    selection.model_copy(update={"evidence": [weak]}).write(run.selection)
    text = "".join(Parsed(page_of(run)).text)
    assert "which chance may explain: what is trusted decides" in text
    assert "are trusted with half a weight each as far as they agree" in text
    history = run.history("search")
    history.write_text(json.dumps({"step": 0, "steps_per_operation": 68}) + "\n" + history.read_text())
    text = "".join(Parsed(page_of(run)).text)
    assert "Two zero-cost proxies are trusted with half a weight each" in text


def test_the_figure_that_decides_stands_beside_the_score(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    selection = Selection.read(run.selection)
    chosen = selection.candidates[0].model_copy(update={"judged": 0.734})
    selection.model_copy(update={"candidates": [chosen, *selection.candidates[1:]]}).write(run.selection)
    text = "".join(Parsed(page_of(run)).text)
    assert "+0.73" in text and "What decides is how a network is judged as a whole" in text


def test_the_classic_argmax_has_a_row_of_its_own_only_where_it_is_another_network(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    selection = Selection.read(run.selection)
    text = "".join(Parsed(page_of(run)).text)
    assert "chosen; the classic argmax" in text and "argmax of the search is the same network" in text
    assert "classic argmax, not measured" not in text
    other = genotype_from_record({"space": "nasbench201", "cell": POOLS})
    argmax = selection.argmax.model_copy(update={"genotype": other})
    selection.model_copy(update={"argmax": argmax}).write(run.selection)
    text = "".join(Parsed(page_of(run)).text)
    assert "classic argmax, not measured" in text and "is predicted to take 0.9 ms and would fit too" in text


def test_one_network_is_not_several(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    selection = Selection.read(run.selection)
    chosen = [one for one in selection.candidates if one.verdict == "chosen"][:1]
    selection.model_copy(update={"candidates": chosen}).write(run.selection)
    assert "One network was tried at p50 and fits, and this one" in "".join(Parsed(page_of(run)).text)
