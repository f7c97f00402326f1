"""What many tests need: published genotypes and one torch thread."""

import os

import pytest
import torch

from pipeline.space.genotype import Genotype, genotype_from_record

os.environ.setdefault("MPLBACKEND", "Agg")
torch.set_num_threads(1)


def pairs(text: str) -> list[list[object]]:
    """ "sep_conv_3x3 0, skip_connect 1" as the pairs of a genotype file."""
    return [[operation, int(source)] for operation, source in (item.split() for item in text.split(", "))]


DARTS_V2_RECORD = {
    "space": "darts",
    "normal": pairs(
        "sep_conv_3x3 0, sep_conv_3x3 1, sep_conv_3x3 0, sep_conv_3x3 1, "
        "sep_conv_3x3 1, skip_connect 0, skip_connect 0, dil_conv_3x3 2"
    ),
    "reduce": pairs(
        "max_pool_3x3 0, max_pool_3x3 1, skip_connect 2, max_pool_3x3 1, "
        "max_pool_3x3 0, skip_connect 2, skip_connect 2, max_pool_3x3 1"
    ),
}


@pytest.fixture
def darts_v2() -> Genotype:
    return genotype_from_record(DARTS_V2_RECORD)


@pytest.fixture(autouse=True)
def no_waiting_for_a_quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fake devices get no quieter by waiting."""
    monkeypatch.setattr("pipeline.latency.target._PAUSES_S", (0.0,) * 5)
