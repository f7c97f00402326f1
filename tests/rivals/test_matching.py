"""Widths against a latency that is a formula, and epochs against a division by hand."""

import itertools

import pytest
from torch import nn

from pipeline.rivals.matching import match_width
from pipeline.rivals.pace import affordable_epochs


class Wide(nn.Module):
    def __init__(self, width: float) -> None:
        super().__init__()
        self.width = width


def test_the_width_is_where_the_latency_is_the_wanted_one() -> None:
    match = match_width(Wide, lambda network: float(network.width) ** 2 / 2.25)  # type: ignore[arg-type]
    assert match.width == pytest.approx(1.5, rel=0.02) and match.is_close
    assert match.ratio == pytest.approx(match.width**2 / 2.25)


@pytest.mark.parametrize(("latency", "end"), [(5.0, 0.1), (0.2, 8.0)])
def test_a_latency_out_of_reach_gives_the_nearest_end(latency: float, end: float) -> None:
    match = match_width(Wide, lambda network: latency + float(network.width) / 100)  # type: ignore[arg-type]
    assert not match.is_close and match.width == pytest.approx(end, rel=0.05)


def test_of_steps_the_nearest_is_taken() -> None:
    match = match_width(Wide, lambda network: 0.95 if float(network.width) < 1 else 1.3)  # type: ignore[arg-type]
    assert match.ratio == 0.95


@pytest.mark.parametrize("disturbed", [0, 2, 5])
def test_one_disturbed_reading_does_not_lead_astray(disturbed: int) -> None:
    """A neighbour makes one of the readings three times too long."""
    readings = itertools.count()

    def ratio_of(network: nn.Module) -> float:
        assert isinstance(network, Wide)
        return network.width / 2.0 * (3.0 if next(readings) == disturbed else 1.0)

    match = match_width(Wide, ratio_of)
    assert match.is_close and match.width == pytest.approx(2.0, rel=0.12)


def test_epochs_are_what_the_minutes_allow() -> None:
    assert affordable_epochs(10, [1.0, 2.0, 3.0], seeds=5, most=100) == 20
    assert affordable_epochs(10, [1.0, 2.0, 3.0], seeds=5, most=12) == 12
    assert affordable_epochs(0.01, [1.0, 2.0, 3.0], seeds=5, most=12) == 1
