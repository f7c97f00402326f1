"""Pictures drawn from figures: places of marks by hand, and what must not be drawn."""

from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest

from pipeline.artifacts.metrics import ConfidenceBin
from pipeline.report.anatomy import dissect
from pipeline.report.pictures.latency import draw_costs, draw_predictions, save_picture
from pipeline.report.pictures.network import draw_cell
from pipeline.report.pictures.plot import HEIGHT, WIDTH, Plot, operation_colours
from pipeline.report.pictures.scale import Range
from pipeline.report.pictures.search import draw_operation_shares
from pipeline.report.pictures.training import draw_calibration
from pipeline.space.skeleton import Skeleton
from pipeline.space.spaces import space_named
from tests.artifacts.made import made_part_times
from tests.latency.made import SKELETON, made_table
from tests.report.made_run import NETWORK


def texts(picture: Element) -> list[str]:
    return ["".join(one.itertext()) for one in picture.iter("text")]


def marked(picture: Element, name: str, colour: str) -> list[Element]:
    return [one for one in picture.iter(name) if colour in (one.get("class") or "").split()]


@pytest.mark.parametrize("skeleton", [SKELETON, Skeleton("nasbench201", 3, 4, 8, 3), Skeleton("mobile", 22, 8, 16, 3)])
def test_pictures_of_a_table_are_drawn_for_every_space(tmp_path: Path, skeleton: Skeleton) -> None:
    column = made_table(skeleton, noise=0.03).column("fp32")
    save_picture(draw_costs(column, skeleton), tmp_path / "costs.svg")
    save_picture(draw_predictions(column, column.skeletons[0]), tmp_path / "predictions.svg")
    for name in ("costs.svg", "predictions.svg"):
        assert ElementTree.parse(tmp_path / name).getroot().tag.endswith("svg")
    scatter = draw_predictions(column, column.skeletons[0])
    entry = column.skeletons[0]
    assert len(marked(scatter, "circle", "s4")) == len(entry.calibration_networks) + 1, "and one in the legend"
    assert len(marked(scatter, "path", "s5")) == len(entry.validation_networks) + 1


def test_an_operation_has_one_colour_in_every_picture() -> None:
    record = {"space": "nasbench201", "cell": "|avg_pool_3x3~0|+|none~0|avg_pool_3x3~1|+|none~0|none~1|avg_pool_3x3~2|"}
    shares = draw_operation_shares([{"epoch": n, "genotype": record} for n in range(3)])
    assert shares is not None
    drawn = {element.get("class") for element in shares.iter("path")} | {e.get("class") for e in shares.iter("polygon")}
    colours = operation_colours(space_named("nasbench201"))
    assert len(set(colours.values())) == 5
    assert any(colours["avg_pool_3x3"] in (name or "").split() for name in drawn)


def test_the_legend_is_below_the_plot_and_its_rows_do_not_run_out_of_it() -> None:
    plot = Plot(Range(0, 1), Range(0, 1), "x", "y")
    for number in range(9):
        plot.line([(0, 0), (1, 1)], f"s{number}", f"a rather long name of curve {number}")
    picture = plot.svg("t")
    names = [one for one in picture.iter("text") if "long name" in "".join(one.itertext())]
    assert len(names) == 9
    assert all(float(one.get("y") or 0) > HEIGHT for one in names)
    assert all(float(one.get("x") or 0) + 6 * len("a rather long name of curve 1") <= WIDTH for one in names)
    bottom = float((picture.get("viewBox") or "").split()[3])
    assert max(float(one.get("y") or 0) for one in names) < bottom


def test_calibration_counts_every_bin_and_draws_no_point_for_a_few_answers() -> None:
    bins = [
        ConfidenceBin(confidence=0.3, accuracy=0.9, images=9),
        ConfidenceBin(confidence=0.7, accuracy=0.6, images=10),
        ConfidenceBin(confidence=0.99, accuracy=0.98, images=400),
    ]
    picture = draw_calibration(bins)
    assert {"9", "10", "400"} <= set(texts(picture))
    assert len(marked(picture, "circle", "s0")) == 2
    assert len(marked(picture, "rect", "quiet")) == 3 + 1, "a bar each, and one in the legend"


def test_every_edge_of_a_cell_has_a_lane_so_that_no_labels_meet() -> None:
    view = dissect(NETWORK, None, made_part_times(NETWORK), 0.9).kinds[0]
    picture = draw_cell(view, dissect(NETWORK, None, None, None).total)
    labels = [one for one in picture.iter("text") if "".join(one.itertext()) in view.kind.operations]
    heights = sorted(float(one.get("y") or 0) for one in labels)
    assert len(heights) == len(view.lanes) == 6
    assert all(after - before >= 20 for before, after in pairwise(heights))
