"""The one way to time and the one rule for "fits", on a clock that does what a test wants."""

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, cycle, islice, repeat

import numpy as np
import pytest

from pipeline.config import TargetConfig
from pipeline.errors import PromiseBroken
from pipeline.latency import target
from pipeline.latency.budget_rule import Measured
from pipeline.latency.measure import Effort, Journal
from pipeline.latency.statistics import Interval
from pipeline.latency.target import TargetMachine, certain, measure_quietly
from pipeline.space.genotype import Genotype
from pipeline.space.plan import count_params
from tests.latency.fakes import CALL_MS, PARAMETER_MS, FakeDevice
from tests.latency.made import SKELETON

EFFORT = Effort(rounds=8, calls=2, extra_rounds=0)
TAILS = Measured(1.0, 1.4, 1.8, 0.1, 1.05, Interval(1.3, 1.6), Interval(1.5, 3.3))


@pytest.mark.parametrize(
    ("budget_ms", "percentile", "keeps", "marked"),
    [
        (1.0, 50, True, True),
        (0.999, 50, False, True),
        (0.899, 50, False, False),
        (1.101, 50, True, False),
        (1.4, 95, True, True),
        (1.39, 95, False, True),
        (1.25, 95, False, False),  # the noise floor of 10 % is wider than the interval's lower end
        (1.61, 95, True, False),
        (3.2, 99, True, True),
        (3.3, 99, True, False),
    ],
)
def test_one_rule_and_a_mark(budget_ms: float, percentile: int, keeps: bool, marked: bool) -> None:
    assert TAILS.keeps(budget_ms, percentile) is keeps
    assert TAILS.is_within_noise_of(budget_ms, percentile) is marked


def test_without_noise_nothing_is_marked() -> None:
    exact = Measured(1.0, 1.0, 1.0, 0.0)
    assert exact.keeps(1.0, 50) and not exact.is_within_noise_of(1.0, 50)


def test_noise_is_half_the_interval_of_the_percentile() -> None:
    assert TAILS.noise_at(50) == 0.1
    assert TAILS.noise_at(95) == pytest.approx((1.6 - 1.4 * 0.9) / 2 / 1.4)
    narrow = TAILS._replace(p95_interval_ms=Interval(1.39, 1.41))
    assert narrow.interval_ms(95) == pytest.approx((1.26, 1.54)), "no narrower than the noise floor"
    assert TAILS.noise_at(50, 95, 99) == TAILS.noise_at(99) == pytest.approx((3.3 - 1.5) / 2 / 1.8)


def test_the_record_is_of_the_percentile_that_was_promised() -> None:
    record = TAILS.record_beside(3.0, 99)
    assert record["measured_ms"] == {"p50": 1.0, "p95": 1.4, "p99": 1.8, "raw_p50": 1.05}
    assert record["measured_interval_ms"] == [1.5, 3.3]
    assert record["noise_floor"] == TAILS.noise_at(99) and record["within_noise"] is True


def test_networks_and_models_are_timed_beside_the_sentinel(darts_v2: Genotype) -> None:
    machine = TargetMachine(FakeDevice(), effort=EFFORT)
    measured = machine.time_network(SKELETON, darts_v2)
    expected = CALL_MS + PARAMETER_MS * count_params(SKELETON, darts_v2)
    assert measured[:5] == pytest.approx((expected, expected, expected, 0.0, expected))
    journal = Journal()
    one, two = machine.time([1.0, 2.0], journal)
    assert (one.p50_ms, two.p50_ms) == (1.0, 2.0)
    assert [len(journal.readings[name]) for name in ("0", "1")] == [16, 16]


def test_a_machine_slower_than_its_table_is_noisy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "make_sentinel", lambda _: 2.0)
    machine = TargetMachine(FakeDevice(), sentinel_ms=1.6, effort=EFFORT)
    assert machine.time([7.0])[0].noise_floor == pytest.approx(0.25), "the sentinel takes 2.0 ms where 1.6 are known"
    assert replace(machine, sentinel_ms=3.0).time([7.0])[0].noise_floor == 0.0


def test_the_machine_is_that_of_the_settings() -> None:
    settings = TargetConfig(threads=1, batch=3, percentile=95, max_noise_floor=0.2)
    machine = TargetMachine.of(settings, "torch", 0.5)
    made = machine.device.fingerprint
    assert (made.device, made.threads, made.batch, made.runtime) == ("cpu", 1, 3, "torch")
    assert (machine.sentinel_ms, machine.percentiles, machine.max_noise_floor) == (0.5, (95,), 0.2)


class Disturbed(FakeDevice):
    """Calls of the model (not of the sentinel) take the times given, one after the other."""

    def __init__(self, times_ms: Iterator[float]) -> None:
        super().__init__()
        self.times_ms, self.calls = times_ms, 0

    def load(self, model: object):
        runner = super().load(model)
        if model == 1.0:
            plain = runner.run

            def run():
                self.calls += 1
                return plain()._replace(wall_ms=next(self.times_ms))

            runner.run = run  # type: ignore[method-assign]
        return runner


def test_a_tail_that_one_stretch_made_is_timed_on_until_it_is_known() -> None:
    """The first 200 calls meet a disturbance of 14: p95 is anything from 1 to 9 ms; nothing disturbs the later ones."""
    device = Disturbed(chain(repeat(1.0, 100), repeat(9.0, 14), repeat(1.0)))
    once = TargetMachine(device, percentiles=(50,), effort=Effort(rounds=40, calls=5, extra_rounds=0))
    assert once.time([1.0])[0].noise_at(95) > 0.3, "the median's effort does not know it"
    device = Disturbed(chain(repeat(1.0, 100), repeat(9.0, 14), repeat(1.0)))
    journal = Journal()
    (measured,) = replace(once, device=device, percentiles=(95,)).time([1.0], journal)
    assert len(journal.readings["0"]) == 4 * 200
    assert measured.p95_ms == 1.0 and measured.noise_at(95) <= 0.05
    assert measured.raw_p50_ms == 1.0


def test_a_tail_that_stays_unknown_is_refused() -> None:
    """Stretches of 60 slow calls among 600, again and again: p95 is in the stretches or outside of them."""
    times = cycle([*repeat(1.0, 540), *repeat(9.0, 60)])
    machine = TargetMachine(
        Disturbed(islice(times, 300, None)), percentiles=(95,), effort=Effort(rounds=40, calls=5, extra_rounds=0)
    )
    (measured,) = machine.time([1.0])
    with pytest.raises(PromiseBroken, match=r"p95 lies between 1 and 9 ms.* max_noise_floor allows 5\.0%"):
        certain(measured, 95, 0.05)
    assert certain(measured, 50, 0.05) is measured, "the median is known all the same"


def test_more_calls_are_not_spent_on_a_machine_that_is_too_noisy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "make_sentinel", lambda _: 2.0)
    journal, device = Journal(), Disturbed(cycle([*repeat(1.0, 90), *repeat(9.0, 10)]))
    effort = Effort(rounds=40, calls=5, extra_rounds=0)
    (measured,) = TargetMachine(device, 1.6, percentiles=(95,), effort=effort).time([1.0], journal)
    assert measured.noise_floor == pytest.approx(0.25) and len(journal.readings["0"]) == 200


@pytest.mark.parametrize(("percentile", "calls"), [(50, 40), (95, 200), (99, 1000)])
def test_a_tail_needs_ten_calls_beyond_it(percentile: int, calls: int) -> None:
    journal, effort = Journal(), Effort(rounds=8, calls=5, extra_rounds=0)
    TargetMachine(FakeDevice(), percentiles=(50, percentile), effort=effort).time([1.0], journal)
    assert len(journal.readings["0"]) == calls


def test_a_quiet_measurement_ends_the_attempts_and_pauses_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.latency.target._PAUSES_S", (0.5, 1.0, 2.0, 4.0, 8.0))
    floors, pauses = iter([0.3, 0.2, 0.04, 0.01]), list[float]()
    found = measure_quietly(lambda: Measured(1.0, 1.0, 1.0, next(floors)), [50], 0.05, pauses.append)
    assert found.noise_floor == 0.04
    assert pauses == [0.5, 1.0]


def test_the_quietest_of_all_attempts_is_kept_and_refused(capsys: pytest.CaptureFixture[str]) -> None:
    floors = iter([0.3, 0.2, 0.08, 0.1, 0.4, 0.5, 0.01])
    found = measure_quietly(lambda: Measured(1.0, 1.0, 1.0, next(floors)), [50], 0.05, lambda _: None)
    assert found.noise_floor == 0.08
    said = re.findall(r"noise floor (\S+)%,", capsys.readouterr().err)
    assert said == ["30.0", "20.0", "8.0", "10.0", "40.0"], "each attempt's own"
    with pytest.raises(PromiseBroken, match=r"8\.0% at best where \[target\] max_noise_floor allows 5\.0%"):
        certain(found, 50, 0.05)
    assert certain(found, 50, 0.08) is found


def test_attempts_go_on_while_the_promised_percentile_is_unknown() -> None:
    wide, narrow = Interval(1.0, 4.0), Interval(1.9, 2.0)
    attempts = iter([Measured(1.0, 2.0, 2.0, 0.01, None, tail) for tail in (wide, narrow)])
    assert measure_quietly(lambda: next(attempts), [95], 0.05, lambda _: None).p95_interval_ms == narrow
    attempts = iter([Measured(1.0, 2.0, 2.0, 0.01, None, tail) for tail in (wide, narrow)])
    assert measure_quietly(lambda: next(attempts), [50], 0.05, lambda _: None).p95_interval_ms == wide


def test_looked_up_figures_know_no_more_than_they_were_given() -> None:
    never = Measured(math.inf, math.inf, math.inf, 0.0)
    assert not never.keeps(1.0, 50) and not never.is_within_noise_of(1.0, 50)
    assert np.isinf(never.interval_ms(50).high) and never.record()["raw_p50"] is None
