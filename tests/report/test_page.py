"""The page from a run on disk: what it says, that data stay data, that nothing is fetched, and how large it may get."""

import json
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pipeline.artifacts.document import Percentiles
from pipeline.artifacts.metrics import Metrics, TeacherFigures
from pipeline.artifacts.mistakes import Mistakes
from pipeline.artifacts.network import ChosenNetwork
from pipeline.artifacts.part_times import PartTimes
from pipeline.artifacts.selection import Selection
from pipeline.artifacts.stage_record import StageRecord
from pipeline.errors import UserError
from pipeline.report.contents import read_contents
from pipeline.report.page import render_page, write_report
from pipeline.report.runs import describe_runs
from pipeline.report.summary import summarize
from pipeline.rundir import RunDir
from pipeline.space.genotype import genotype_from_record
from pipeline.space.skeleton import Skeleton
from pipeline.whole_files import sha256_of, write_text
from tests.artifacts.made import made_card
from tests.report.made_run import NETWORK, add_budgets, made_run

# names of classes that would be markup, break out of attributes, or turn the text around them
NASTY = (
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(2)'>",
    "</style></title><svg onload=alert(3)>",
    "🐈 & 🐕",
    "קטע \u202eevil\u202c מימין",
    "a\x00b\x1b[31m",
)
SECTIONS = ("answer", "reasons", "network", "table", "search", "training", "rivals", "settings")


class Parsed(HTMLParser):
    """The page as a browser takes it apart: tags with their attributes, and all text outside of scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._inside: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._inside:
            while self._inside.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self._inside):
            self.text.append(data)

    @property
    def ids(self) -> list[str | None]:
        return [attributes["id"] for _, attributes in self.tags if "id" in attributes]


_POOLS = "|avg_pool_3x3~0|+|none~0|avg_pool_3x3~1|+|none~0|skip_connect~1|avg_pool_3x3~2|"


def page_of(run: RunDir) -> str:
    return render_page(read_contents(run, run.project / "pipeline.toml"))


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


def test_a_network_no_better_than_chance_is_called_so(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    assert "no better than chance" not in page_of(run)
    metrics = Metrics.read(run.metrics)
    share = metrics.largest_class_share
    metrics.model_copy(update={"test_accuracy": share}).write(run.metrics)
    page = page_of(run)
    told = f"But it is no better than chance: answering always the most frequent class is right on {share:.0%}"
    assert told in "".join(Parsed(page).text) and "<code>pipeline check</code>" in page


def test_the_surest_mistakes_are_named_by_file_and_few_classes_have_no_top_5(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    mistakes, metrics = Mistakes.read(run.mistakes), Metrics.read(run.metrics)
    assert f"image {mistakes.shown[0].image}" in "".join(Parsed(page_of(run)).text)
    named = mistakes.shown[0].model_copy(update={"file": "/home/me/photos/test/cats/<b>.jpg"})
    mistakes.model_copy(update={"shown": [named]}).write(run.mistakes)
    text = "".join(Parsed(page_of(run)).text)
    assert "cats/<b>.jpg" in text and "/home/me" not in text, "a page is shown to others"
    assert "top-5" not in text
    nine, ten = (metrics.model_copy(update={"per_class": [metrics.per_class[0]] * count}) for count in (9, 10))
    assert nine.describe_top5() == "" and ten.describe_top5() == f" (top-5 {metrics.test_top5:.2%})"


def test_a_search_under_way_is_not_called_made(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    for path in (run.genotype, run.certificate, run.selection, run.metrics, run.model_card, run.weights):
        path.unlink(missing_ok=True)
    begun = "".join(Parsed(page_of(run)).text)
    assert "A search has begun and is not done" in begun and "Next: pipeline search" in begun
    write_text(run.alphas, "found")
    made = "".join(Parsed(page_of(run)).text)
    assert "A search was made" in made and "Next: pipeline discretize" in made


def test_a_short_search_is_doubted_where_its_choice_is_explained(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    assert "a short search" not in "".join(Parsed(page_of(run)).text)
    history = run.latest_history("search")
    entries = [{"step": 0, "steps_per_operation": 68}, *map(json.loads, history.read_text().splitlines())]
    history.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    text = "".join(Parsed(page_of(run)).text)
    assert "But it comes of a short search: each operation takes part in about 68 weight steps" in text


def test_evidence_that_chance_may_explain_points_to_the_search_only_if_that_is_trusted(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    selection = Selection.read(run.selection)
    weak = selection.evidence[-1].model_copy(update={"low": -0.1})
    selection.model_copy(update={"evidence": [weak]}).write(run.selection)
    text = "".join(Parsed(page_of(run)).text)
    assert "the search's own two are the surer ground" in text and "keep half a weight each" in text
    history = run.history("search")
    history.write_text(json.dumps({"step": 0, "steps_per_operation": 68}) + "\n" + history.read_text())
    text = "".join(Parsed(page_of(run)).text)
    assert "size counts for more than they do" in text and "keep half a weight each" not in text


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
    other = genotype_from_record({"space": "nasbench201", "cell": _POOLS})
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


def test_a_teacher_and_where_weights_started_are_named_with_their_measure(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    assert "teacher" not in "".join(Parsed(page_of(run)).text)
    teacher = TeacherFigures(
        name="timm:<big>", sha256="0" * 64, weight=0.9, temperature=4.0, accuracy=0.875, probe_accuracy=0.5,
        images=80, judged_on="the holdout", kept=False,
    )  # fmt: skip
    metrics = Metrics.read(run.metrics)
    metrics.model_copy(update={"teacher": teacher, "start": "supernet, 90% of the weights"}).write(run.metrics)
    text = "".join(Parsed(page_of(run)).text)
    assert "timm:<big>, right on 87.5% of 80 images from the holdout" in text and "a linear probe has 50.0%" in text
    assert "started with weights of supernet, 90% of the weights" in text


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


@pytest.mark.parametrize(
    ("skeleton", "record"),
    [
        (
            Skeleton("nasbench-macro", 8, 8, 32, 3),
            {"layers": ["mb3_k3", "mb6_k5", "skip", "mb3_k3", "mb6_k5", "skip", "mb3_k3", "mb6_k5"]},
        ),
        (
            Skeleton("mobile", 22, 8, 32, 3),
            {"layers": ["mb1_k3", *["mb3_k7_se", "skip", "mb6_k5", "skip"] * 5, "mb6_k3"]},
        ),
    ],
)
def test_layers_are_drawn_as_a_strip(tmp_path: Path, skeleton: Skeleton, record: dict[str, list[str]]) -> None:
    network = ChosenNetwork(genotype=genotype_from_record({"space": skeleton.space, **record}), skeleton=skeleton)
    page = page_of(made_run(tmp_path, network=network))
    text = "".join(Parsed(page).text)
    for operation in set(record["layers"]) - {"skip"}:
        kernel, expansion = re.search(r"k(\d)", operation), re.search(r"mb(\d)", operation)
        assert kernel and expansion and f"k{kernel[1]}" in text and f"×{expansion[1]}" in text
    assert "32 px" in text and "An arrow is an operation" not in text
    assert len(re.findall("predicted, [0-9.]+ ms in all", text)) == 1


def test_the_picture_is_of_the_deployed_network_and_not_of_the_argmax(tmp_path: Path) -> None:
    deployed = genotype_from_record({"space": "nasbench201", "cell": _POOLS})
    run = made_run(tmp_path, network=ChosenNetwork(genotype=deployed, skeleton=NETWORK.skeleton))
    page = page_of(run)
    drawn = page[page.index('id="network"') : page.index('id="table"')]
    assert "avg_pool_3x3" in drawn and "nor_conv" not in drawn, "the selection's argmax has nor_conv_3x3"


def test_times_of_another_network_are_not_shown(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    assert "by onnxruntime's profiler" in page_of(run)
    times = PartTimes.read(run.part_times)
    times.model_copy(update={"genotype_sha256": "f" * 64}).write(run.part_times)
    assert "by onnxruntime's profiler" not in page_of(run)
