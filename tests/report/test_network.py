"""What the page shows of the network that is deployed."""

import re
from pathlib import Path

import pytest

from pipeline.artifacts.network import ChosenNetwork
from pipeline.artifacts.part_times import PartTimes
from pipeline.space.genotype import genotype_from_record
from pipeline.space.skeleton import Skeleton
from tests.report.made_run import NETWORK, POOLS, made_run
from tests.report.parsed_page import Parsed, page_of


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
    deployed = genotype_from_record({"space": "nasbench201", "cell": POOLS})
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
