"""Measuring until the machine is quiet."""

import pytest

from pipeline.errors import PromiseBroken
from pipeline.latency.measured import Measured, certain, measure_quietly


def test_a_quiet_measurement_ends_the_attempts_and_pauses_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.latency.measured._PAUSES_S", (0.5, 1.0, 2.0, 4.0, 8.0))
    floors, pauses = iter([0.3, 0.2, 0.04, 0.01]), list[float]()
    found = measure_quietly(lambda: Measured(1.0, 1.0, 1.0, next(floors)), 0.05, pauses.append)
    assert found.noise_floor == 0.04
    assert pauses == [0.5, 1.0]


def test_the_quietest_of_all_attempts_is_kept_and_refused() -> None:
    floors = iter([0.3, 0.2, 0.08, 0.1, 0.4, 0.5, 0.01])
    found = measure_quietly(lambda: Measured(1.0, 1.0, 1.0, next(floors)), 0.05, lambda _: None)
    assert found.noise_floor == 0.08
    with pytest.raises(PromiseBroken, match=r"8\.0% at best where \[target\] max_noise_floor allows 5\.0%"):
        certain(found, 0.05)
    assert certain(found, 0.08) is found
