import json
from itertools import repeat

import numpy as np
import pytest

from pipeline.latency.measure import Effort, Journal, journal_from_record, measure_models
from tests.latency.fakes import FakeDevice

EFFORT = Effort(rounds=4, calls=3, extra_rounds=2)
MODELS = {"a": 1.0, "b": 2.0, "c": 5.0}


def test_measures_what_the_clock_says() -> None:
    measured = measure_models(FakeDevice(), MODELS, 0.5, EFFORT)
    assert {name: timing.p50_ms for name, timing in measured.timings.items()} == MODELS
    assert measured.sentinel_ms == 0.5
    assert measured.noise_floor == 0.0
    assert all(timing.count == 12 for timing in measured.timings.values())


def test_rounds_are_interleaved_and_the_sentinel_stands_before_every_visit() -> None:
    device = FakeDevice()
    measure_models(device, MODELS, 0.5, EFFORT)
    one_round = [s for name in ("1.0", "2.0", "5.0") for s in (*["0.5"] * 7, *[name] * 4)]
    assert device.log[-len(one_round) * 4 :] == one_round * 4


def test_a_drifting_machine_slows_all_models_alike() -> None:
    step = iter(1.0 + 0.0005 * i for i in range(10_000))
    measured = measure_models(FakeDevice(step), MODELS, 0.5, Effort(rounds=20, calls=3))
    ratios = [timing.fast_ms / MODELS[name] for name, timing in measured.timings.items()]
    assert max(ratios) / min(ratios) < 1.02
    assert 0.01 < measured.noise_floor < 0.05, "a median on a drifting machine is that uncertain"


def test_disturbed_models_get_more_rounds_and_recover() -> None:
    # the calls of the first rounds are slowed at random; later ones are quiet
    start = np.random.default_rng(0).uniform(1.3, 6.0, 200)
    device = FakeDevice(iter([*start, *repeat(1.0, 10_000)]))
    measured = measure_models(device, MODELS, 0.5, Effort(rounds=4, calls=3, extra_rounds=12))
    assert all(timing.count > 12 for timing in measured.timings.values())
    assert {name: timing.p50_ms for name, timing in measured.timings.items()} == pytest.approx(MODELS)


def test_a_model_that_only_met_slow_stretches_is_timed_again() -> None:
    """Every visit of b falls into a stretch 1.45 times as slow: quiet by itself, but not beside its sentinel."""
    visit, warm_up, rounds = 7 + 4, 4 * 6, 8
    slow_in_b = [*[1.0] * visit, *[1.45] * visit, *[1.0] * visit]
    device = FakeDevice(iter([*[1.0] * warm_up, *slow_in_b * rounds, *repeat(1.0, 1000)]))
    measured = measure_models(device, MODELS, 0.5, Effort(rounds=rounds, calls=3, extra_rounds=20))
    assert {name: timing.p50_ms for name, timing in measured.timings.items()} == pytest.approx(MODELS)
    assert measured.timings["b"].fast_ms == pytest.approx(2.0)
    assert measured.timings["b"].count > measured.timings["a"].count == 24


def test_a_stopped_measurement_goes_on_where_it_was() -> None:
    saved: list[str] = []

    def stop_in_round_three(journal: Journal, share: float) -> None:
        saved.append(json.dumps(journal.record()))
        if share >= 0.75:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure_models(FakeDevice(), MODELS, 0.5, EFFORT, Journal(), stop_in_round_three)
    journal = journal_from_record(json.loads(saved[-1]))
    device = FakeDevice()
    measured = measure_models(device, MODELS, 0.5, EFFORT, journal)
    assert all(timing.count == 12 for timing in measured.timings.values())
    timed = device.log[-11 * 3 :]
    assert timed == [s for name in ("1.0", "2.0", "5.0") for s in (*["0.5"] * 7, *[name] * 4)]
    # three models and the sentinel are warmed up with at least 6 calls each; nothing of rounds 1 to 3 is repeated
    assert len(device.log) == 4 * 6 + 11 * 3


def test_warm_up_goes_on_until_calls_agree() -> None:
    falling = iter([8.0, 8.0, 8.0, 4.0, 4.0, 4.0, 2.0, 2.0, 2.0, *repeat(1.0, 1000)])
    device = FakeDevice(falling)
    measured = measure_models(device, {"a": 1.0}, 0.5, Effort(rounds=2, calls=2, extra_rounds=0))
    # the sentinel swallows the fall: 3+3+3+3+3 calls until two windows agree
    assert device.log[:15] == ["0.5"] * 15 and device.log[15] == "1.0"
    assert measured.timings["a"].p50_ms == 1.0


def test_several_threads_or_a_gpu_have_no_cpu_clock() -> None:
    measured = measure_models(FakeDevice(cpu_clock=False), MODELS, 0.5, EFFORT)
    assert measured.timings["b"].p50_ms == 2.0
