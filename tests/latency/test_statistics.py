import numpy as np
import pytest

from pipeline.latency.statistics import Reading, noise_floor, quiet_values, summarize


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
