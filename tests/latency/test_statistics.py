import numpy as np
import pytest

from pipeline.latency.statistics import Reading, in_stretches, noise_floor, quiet_values, summarize, tail_interval


def test_an_undisturbed_model_has_its_plain_percentiles() -> None:
    walls = np.linspace(1.0, 1.1, 101)
    timing = summarize([Reading(w, w) for w in walls])
    assert timing.p50_ms == pytest.approx(1.05, abs=1e-12)
    assert timing.p95_ms == pytest.approx(1.095, abs=1e-12)
    assert timing.p99_ms == pytest.approx(1.099, abs=1e-12)
    assert timing.fast_ms == pytest.approx(1.002, abs=1e-12)
    assert (timing.count, timing.quiet) == (101, 101)


def test_disturbed_calls_change_the_tail_but_not_the_median() -> None:
    quiet = [Reading(w, w) for w in np.linspace(1.0, 1.1, 41)]
    slowed = [Reading(1.7 * reading.wall_ms, 1.7 * reading.wall_ms) for reading in quiet]
    timing = summarize(quiet + slowed)
    assert timing.p50_ms == pytest.approx(1.05, rel=2e-3)
    assert timing.raw_p50_ms > 1.09
    assert timing.p95_ms > 1.8
    assert timing.quiet == len(quiet)


def test_calls_beside_a_slow_sentinel_count_for_the_tail_only() -> None:
    beside_quiet, beside_slow = Reading(1.0, 1.0, sentinel_ms=0.57), Reading(1.1, 1.1, sentinel_ms=0.58)
    timing = summarize([beside_quiet] * 2 + [beside_slow] * 8, sentinel_fast_ms=0.5)
    assert (timing.p50_ms, timing.raw_p50_ms, timing.quiet) == (1.0, 1.1, 2)
    throughout = summarize([beside_slow] * 8, sentinel_fast_ms=0.5)
    assert (throughout.p50_ms, throughout.quiet) == (1.1, 0)


def test_an_interruption_lengthens_the_wall_clock_only() -> None:
    through, interrupted = Reading(1.02, 1.0), Reading(9.0, 1.0)
    assert interrupted.interrupted and not through.interrupted
    timing = summarize([through] * 4 + [interrupted] * 6)
    assert timing.p50_ms == pytest.approx(1.02)
    assert timing.raw_p50_ms == 9.0


def test_without_a_cpu_clock_the_wall_clock_is_all_there_is() -> None:
    reading = Reading(2.0, None)
    assert reading.steady_ms == 2.0 and not reading.interrupted
    assert summarize([reading] * 3).p50_ms == 2.0


def test_the_quiet_mode_ends_15_percent_above_the_fast_end() -> None:
    values = np.array([1.0] * 50 + [1.149, 1.151])
    assert quiet_values(values).max() == 1.149


def test_noise_floor_is_the_uncertainty_of_a_median() -> None:
    """Of n normal values the median has the standard error σ · √(π / 2n)."""
    looks = 1.0 + 0.01 * np.random.default_rng(0).standard_normal(6000)
    expected = 1.96 * 0.01 * np.sqrt(np.pi / (2 * 120))
    assert noise_floor(looks.tolist()) == pytest.approx(expected, rel=0.15)
    fewer = np.mean([noise_floor(looks[start : start + 60].tolist()) for start in range(0, 6000, 60)])
    assert fewer == pytest.approx(expected * np.sqrt(2), rel=0.15)


def test_a_disturbance_that_lasts_is_noise_and_a_short_one_is_not() -> None:
    """A tenth of the looks in a slower mode: spread evenly they leave the median alone, in one stretch as well; half of
    the looks 10 % slower, in stretches, move it."""
    quiet = 1.0 + 0.001 * np.random.default_rng(1).standard_normal(600)
    spikes = quiet.copy()
    spikes[::10] *= 1.5
    stretches = quiet.copy()
    for start in range(0, 600, 100):
        stretches[start : start + 50] *= 1.1
    assert noise_floor(spikes.tolist()) < 0.001
    assert noise_floor(stretches.tolist()) > 0.03
    assert noise_floor([1.0] * 14) == 1.0, "too few looks say nothing"
    assert noise_floor([1.0]) == 1.0


def test_the_fast_end_is_never_above_the_median() -> None:
    """The CPU clock, which is read outside of the wall clock, may run longer; few calls may lie in two modes."""
    outside = summarize([Reading(0.010, 0.013)] * 9)
    assert outside.fast_ms == outside.p50_ms == pytest.approx(0.010)
    assert outside.steady_ms == 0.013
    two_modes = summarize([Reading(1.0, 1.0), Reading(10.0, 10.0)])
    assert two_modes.fast_ms == two_modes.p50_ms == 1.0 < two_modes.steady_ms


@pytest.mark.parametrize("percentile", [95, 99])
def test_the_interval_of_a_tail_is_that_of_an_order_statistic(percentile: int) -> None:
    """Of n uniform values the q-quantile has the standard error √(q(1 − q)/n), whatever the distribution between."""
    q, n = percentile / 100, 4000
    widths = []
    for seed in range(20):
        walls = 1.0 + np.random.default_rng(seed).random(n)
        low, high = tail_interval([Reading(wall, None) for wall in walls], percentile)
        assert low < 1 + q + 0.01 and high > 1 + q - 0.01
        widths.append(high - low)
    assert np.mean(widths) == pytest.approx(2 * 1.96 * np.sqrt(q * (1 - q) / n), rel=0.15)


def test_a_stretch_of_slow_calls_widens_the_interval_as_scattered_ones_do_not() -> None:
    scattered, stretch = np.ones(600), np.ones(600)
    scattered[::8] = stretch[200:275] = 5.0
    wide, narrow = (tail_interval([Reading(w, None) for w in walls], 95) for walls in (stretch, scattered))
    assert tuple(narrow) == (5.0, 5.0) and tuple(wide) == (1.0, 5.0)


@pytest.mark.parametrize(("count", "lengths"), [(3, {1}), (20, {1}), (47, {2, 3}), (600, {30})])
def test_stretches_hold_every_call_once_in_order(count: int, lengths: set[int]) -> None:
    readings = [Reading(float(i), None) for i in range(count)]
    parts = in_stretches(readings)
    assert [reading for part in parts for reading in part] == readings
    assert {len(part) for part in parts} == lengths and len(parts) == min(20, count)
