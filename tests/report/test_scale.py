"""Ranges, ticks and thinning against their definitions."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.report.pictures.scale import Range, range_of, round_ticks, thin

FINITE = st.floats(-1e6, 1e6)


@given(FINITE, st.floats(1e-3, 1e6))
def test_ticks_are_round_evenly_spaced_and_inside(low: float, span: float) -> None:
    ticks = round_ticks(Range(low, low + span))
    assert 2 <= len(ticks) <= 7
    slack = 1e-6 * span
    assert all(low - slack <= tick <= low + span + slack for tick in ticks)
    step = ticks[1] - ticks[0]
    mantissa = step / 10 ** math.floor(math.log10(step) + 1e-9)
    assert min(abs(mantissa - round_one) for round_one in (1, 2, 5, 10)) < 1e-3


@given(st.lists(st.tuples(FINITE, FINITE), max_size=400), st.integers(2, 60))
def test_thinning_keeps_order_and_the_extremes(points: list[tuple[float, float]], most: int) -> None:
    points = sorted(points)
    kept = thin(points, most)
    assert len(kept) <= max(most, len(points) if len(points) <= most else 0)
    assert [point for point in points if point in kept][: len(kept)] and kept == sorted(kept) if points else kept == []
    if points:
        for pick in (min, max):
            assert pick(y for _, y in kept) == pick(y for _, y in points)


def test_a_range_holds_its_values_with_a_margin() -> None:
    assert range_of([1.0, 3.0], margin=0.1) == pytest.approx((0.8, 3.2))
    assert range_of([1.0, 3.0], from_zero=True, margin=0.1) == pytest.approx((0.0, 3.3))
    assert range_of([2.0, 2.0]) == (1.0, 3.0)
    assert range_of([0.0]) == (-0.5, 0.5)
    assert range_of([]) == Range(*range_of([0.0, 1.0]))
    assert range_of([1.0, math.nan, math.inf, 3.0], margin=0.0) == (1.0, 3.0)


def test_places_lie_between_the_ends() -> None:
    shown = Range(10.0, 20.0)
    assert [shown.place(value, 100.0, 0.0) for value in (10.0, 12.5, 20.0, 30.0, 0.0)] == [100.0, 75.0, 0.0, 0.0, 100.0]
