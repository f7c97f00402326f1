"""The page from a run on disk: that data stay data, that nothing is fetched, what it links to, how large it may get."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.artifacts.stage_record import StageRecord
from pipeline.errors import UserError
from pipeline.report.contents import read_contents
from pipeline.report.page import render_page, write_report
from pipeline.report.runs import describe_runs
from pipeline.rundir import RunDir
from pipeline.whole_files import sha256_of, write_text
from tests.report.made_run import NASTY, made_run
from tests.report.parsed_page import SECTIONS, Parsed, page_of


def test_a_finished_run_has_every_section_in_order_and_says_the_answer(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    page = write_report(run, tmp_path / "pipeline.toml").read_text(encoding="utf-8")
    parsed = Parsed(page)
    assert parsed.ids == list(SECTIONS)
    text = "".join(parsed.text)
    assert "It fits: 0.9 ms of 1 ms (p50), 10% to spare." in text
    assert "ours is ahead" in text and "resnet18 was left out: the nearest it comes is 3 ms" in text
    assert "p50 / p95 / p99" in text and "5 % of calls take longer than p95" in text
    assert "deployed: epoch 5" in text, "the best epoch on images kept aside, not the last"
    assert Parsed(run.exported_report.read_text(encoding="utf-8")).ids == parsed.ids
    assert page_of(run) == page, "the same contents give the same page"


def test_a_page_never_shows_an_older_training_as_that_of_the_present_choice(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    trained = StageRecord(
        stage="retrain", finished="", settings={}, outputs={}, inputs={"genotype": sha256_of(run.genotype)}
    )
    trained.write(run.record("retrain"))
    write_report(run, tmp_path / "pipeline.toml")
    kept = run.exported_report.read_text(encoding="utf-8")
    assert "older choice" not in kept and not describe_runs(tmp_path)[0]["outdated"]
    trained.model_copy(update={"inputs": {"genotype": "0" * 64}}).write(run.record("retrain"))
    page = write_report(run, tmp_path / "pipeline.toml").read_text(encoding="utf-8")
    text = "".join(Parsed(page).text)
    assert '<div class="notes" role="note"><p>The network that was trained' in page
    assert ": <code>pipeline retrain --run demo</code> and <code>pipeline export --run demo</code> bring" in page
    assert "an older choice than the one shown here" in text and "clauses kept" not in text
    assert "The one look at" not in text and "before training" in text and "Next: pipeline retrain" in text
    assert run.exported_report.read_text(encoding="utf-8") == kept, "beside the model stays the page about it"
    assert describe_runs(tmp_path)[0]["outdated"]


def files_linked(page: Path) -> set[str]:
    """Where links lead, beside those within the page, which must be there."""
    parsed = Parsed(page.read_text(encoding="utf-8"))
    targets = [a["href"] or "" for tag, a in parsed.tags if tag == "a"]
    inside, files = ([t for t in targets if t.startswith("#") is own] for own in (True, False))
    assert len(inside) >= len(SECTIONS) and {f"#{name}" for name in SECTIONS} <= set(inside)
    return set(files)


def test_every_link_leads_to_a_file_of_the_project(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    write_report(run, tmp_path / "pipeline.toml")
    (run.model).write_bytes(b"")
    run.evidence.write_text("")
    files = files_linked(run.report)
    assert len(files) >= 8
    for target in files:
        assert (run.root / target).is_file(), target


def test_an_exported_page_links_to_what_is_copied_with_it_and_to_nothing_else(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    write_report(run, tmp_path / "pipeline.toml")
    assert files_linked(run.exported_report) == {"model.json", "model.onnx"}
    page = run.exported_report.read_text(encoding="utf-8")
    assert "../" not in page and "exports/demo/model" not in page
    assert "runs/demo/discretize/certificate.json" in page, "where a figure comes from is still said"


def test_names_are_text_whatever_they_hold(tmp_path: Path) -> None:
    page = page_of(made_run(tmp_path, labels=NASTY))
    parsed = Parsed(page)
    known = {tag for tag, _ in Parsed(page_of(made_run(tmp_path / "tame"))).tags}
    assert {tag for tag, _ in parsed.tags} == known, "no tag comes from data"
    assert not any(name.startswith("on") for _, attributes in parsed.tags for name in attributes)
    text = "".join(parsed.text)
    for label in NASTY[:5]:
        assert label in text
    assert "a�b�[31m" in text


def test_the_page_refers_to_nothing_outside(tmp_path: Path) -> None:
    page = page_of(made_run(tmp_path, labels=("http://example.org/x.js", "//example.org", "url(https://example.org)")))
    parsed = Parsed(page)
    for tag, attributes in parsed.tags:
        for name in ("src", "href", "srcset", "action", "data", "poster", "xlink:href", "background"):
            value = attributes.get(name)
            assert value is None or value.startswith(("#", "../../", "data:image/png;base64,")), (tag, name, value)
    styles = "".join(re.findall(r"<style>(.*?)</style>", page, re.DOTALL))
    assert styles and "url(" not in styles and "@import" not in styles
    assert {tag for tag, _ in parsed.tags} & {"link", "iframe", "object", "embed", "base", "form"} == set()
    policy = next(a["content"] for tag, a in parsed.tags if tag == "meta" and "http-equiv" in a)
    assert policy is not None and policy.startswith("default-src 'none'")


@pytest.mark.parametrize("kept", [0, 1, 2, 3, 4])
def test_an_unfinished_run_gets_a_page_of_what_there_is(tmp_path: Path, kept: int) -> None:
    whole, run = made_run(tmp_path / "whole"), RunDir(tmp_path, "demo")
    run.root.mkdir(parents=True)
    for stage in ("search", "discretize", "retrain")[:kept]:
        shutil.copytree(whole.root / stage, run.root / stage)
        write_text(run.alphas, "what the search has found")
    if kept == 4:
        shutil.copytree(whole.exports, run.exports)
    page = write_report(run, tmp_path / "pipeline.toml").read_text(encoding="utf-8")
    following = ("pipeline search", "pipeline discretize", "pipeline retrain", "pipeline export", None)[kept]
    found = re.search(r"This run is not finished. Next: <code>(.*?)</code>", page)
    assert (found and found[1]) == (following and f"{following} --run demo")


def test_a_run_that_does_not_exist_is_refused_with_names_that_come_near(tmp_path: Path) -> None:
    made_run(tmp_path)
    with pytest.raises(UserError, match=r"no run 'dmeo'; there are: demo"):
        write_report(RunDir(tmp_path, "dmeo"), tmp_path / "pipeline.toml")
    assert not (tmp_path / "runs" / "dmeo").exists()


def test_what_cannot_be_read_is_said_and_the_rest_shown(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    lines = run.history("search").read_text().splitlines()
    write_text(run.history("search"), "\n".join([*lines[:3], '{"step": 4, "exp', "[]", *lines[3:]]) + "\n")
    run.selection.write_text("{")
    parsed = Parsed(page_of(run))
    text = "".join(parsed.text)
    assert "history.jsonl has 2 unreadable lines, left out here" in text
    assert "selection.json is damaged" in text
    assert parsed.ids == list(SECTIONS)


def test_a_note_keeps_the_name_of_a_file_as_it_is_written(tmp_path: Path) -> None:
    contents = read_contents(made_run(tmp_path), tmp_path / "pipeline.toml")
    page = render_page(replace(contents, notes=("pipeline.toml has 1 mistake", "the `<b>` is gone")))
    assert "<p>pipeline.toml has 1 mistake</p><p>The <code>&lt;b&gt;</code> is gone</p>" in page


def test_ten_thousand_epochs_are_thinned_and_the_page_stays_small(tmp_path: Path) -> None:
    run = made_run(tmp_path, epochs=10_000)
    page = page_of(run)
    assert len(page.encode()) < 2_000_000
    assert "The history has 20,001 entries. Curves of more than 800 points are thinned" in page
    assert len(page_of(made_run(tmp_path / "short")).encode()) < 300_000


def test_a_thousand_classes_are_listed_and_not_drawn(tmp_path: Path) -> None:
    page = page_of(made_run(tmp_path, labels=[f"class {number}" for number in range(1000)]))
    assert len(page.encode()) < 2_000_000 and "Confusion matrix" not in page
    assert "The most frequent of 1000 kinds of mistakes" in page
