"""The page in a real browser: no complaints, nothing wider than the window, the figures it should show, sorting."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.artifacts.network import ChosenNetwork
from pipeline.report.page import write_report
from pipeline.space.genotype import genotype_from_record
from pipeline.space.skeleton import Skeleton
from tests.report.browser import CHROMIUM, Browser
from tests.report.made_run import NASTY, made_run

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")

# a place of every figure, by words of its own
FIGURES = {
    "answer": "ms measured, 1 ms allowed",
    "reasons": "Predicted and measured latency of every network",
    "network": "The network from input to output",
    "table": "Predicted against measured",
    "search": "Share of each operation in the selected network",
    "training": "Accuracy by confidence",
    "rivals": "Accuracy of every network at the same latency",
}
COUNT = "[...document.querySelectorAll('#{section} figure svg title')].filter(t => t.textContent.includes('{words}'))"
MOBILE = ["mb1_k3", *["mb3_k7_se", "skip", "mb6_k5", "skip"] * 5, "mb6_k3"]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    project = tmp_path_factory.mktemp("project")
    return write_report(made_run(project, labels=NASTY), project / "pipeline.toml")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 400])
def test_the_page_loads_without_complaints_and_shows_its_figures(
    browser: Browser, page: Path, width: int, scheme: str
) -> None:
    browser.open(page, width, scheme)
    assert browser.complaints == []
    assert browser.evaluate("document.documentElement.scrollWidth") <= width, "nothing makes the page scroll sideways"
    for section, words in FIGURES.items():
        pictures = COUNT.format(section=section, words=words)
        assert browser.evaluate(f"{pictures}.length") == 1, section
        assert browser.evaluate(f"{pictures}[0].parentNode.getBoundingClientRect().width") > 250, section
    assert browser.evaluate("[...document.images].every(image => image.naturalWidth > 0)")
    scales = "[...document.querySelectorAll('svg.plot')].map(svg => svg.clientWidth / svg.viewBox.baseVal.width)"
    assert 11 * min(browser.evaluate(scales)) >= 8, "labels of 11 px stay readable"


def test_data_run_no_script_and_tables_sort(browser: Browser, page: Path) -> None:
    browser.open(page, 1400)
    assert browser.evaluate("document.scripts.length") == 1
    column = "[...document.querySelectorAll('#rivals tbody tr')].map(row => row.cells[1].textContent)"
    heading = "document.querySelectorAll('#rivals thead button')[1].click()"
    before = browser.evaluate(column)
    assert before == ["92.50%", "82.50%"]
    browser.evaluate(heading)
    assert browser.evaluate(column) == before[::-1]
    browser.evaluate(heading)
    assert browser.evaluate(column) == before
    assert browser.complaints == []


def test_a_network_of_layers_fits_a_narrow_window(browser: Browser, tmp_path: Path) -> None:
    network = ChosenNetwork(
        genotype=genotype_from_record({"space": "mobile", "layers": MOBILE}), skeleton=Skeleton("mobile", 22, 8, 32, 3)
    )
    browser.open(write_report(made_run(tmp_path, network=network), tmp_path / "pipeline.toml"), 400)
    assert browser.complaints == []
    assert browser.evaluate("document.documentElement.scrollWidth") <= 400
    assert browser.evaluate("document.querySelectorAll('#network svg rect').length") > 22
