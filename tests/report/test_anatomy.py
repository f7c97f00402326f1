"""The parts of a network against sums made by hand."""

import pytest

from pipeline.artifacts.network import ChosenNetwork
from pipeline.latency.part_times import part_of, sum_by_part
from pipeline.latency.predictor import Predictor
from pipeline.report.anatomy import dissect
from pipeline.space.genotype import Genotype
from tests.artifacts.made import made_part_times
from tests.latency.made import SKELETON, made_table
from tests.report.made_run import NETWORK


def test_predicted_parts_add_up_to_the_prediction(darts_v2: Genotype) -> None:
    predictor = Predictor(made_table(), SKELETON)
    found = dissect(ChosenNetwork(genotype=darts_v2, skeleton=SKELETON), predictor, None, None)
    linear = predictor.costs().of(darts_v2)  # what a runtime may merge is counted each
    assert found.total.predicted_ms == pytest.approx(linear, abs=1e-12)
    assert found.total.measured_ms is None
    for view in found.kinds:
        costs = predictor.costs().choices[view.kind.name]
        for lane in view.lanes:
            edge = view.kind.edge_index(lane.node, lane.source)
            wanted = costs[edge, view.kind.operations.index(lane.operation)]
            assert lane.times.predicted_ms == pytest.approx(wanted, abs=1e-12)


def test_measured_parts_add_up_to_the_latency() -> None:
    found = dissect(NETWORK, None, made_part_times(NETWORK), 1.8)
    assert found.total.measured_ms == pytest.approx(1.8) and found.total.predicted_ms is None
    assert found.rest.measured_ms == pytest.approx(1.8 * 0.05 / 0.9)
    edges = {(lane.source, lane.node): lane.times.measured_ms for lane in found.kinds[0].lanes}
    assert edges[0, 0] == pytest.approx(1.8 * 0.4 / 0.9)
    assert edges[0, 2] == pytest.approx(1.8 * 0.15 / 0.9)
    assert edges[1, 1] == 0.0
    assert found.blocks[1].times.measured_ms == pytest.approx(1.8 * 0.55 / 0.9)


def test_nodes_are_assigned_by_the_modules_in_their_names() -> None:
    nodes = {
        "/network/parts.0/parts.0.2/Relu_output_0_nchwc": 1.0,
        "/network/parts.12/edges.3/edges.3.1/Conv_output_0_nchwc": 2.0,
        "/network/parts.12/edges.3/edges.3.4/Relu": 3.0,
        "/network/parts.12/preprocess.1/preprocess.1.0/Relu": 4.0,
        "/network/parts.12/Concat": 5.0,
        "/network/head/head.1/Flatten": 6.0,
        "ReorderOutput_token_46": 7.0,
        "/other/parts.3/Conv": 8.0,
    }
    wanted = {"": 15.0, "0": 1.0, "12": 5.0, "12/edges.3": 5.0, "12/preprocess.1": 4.0, "head": 6.0}
    assert sum_by_part(nodes) == wanted
    assert part_of("/network/parts.3") == ""
