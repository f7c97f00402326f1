"""The timer hands on what the timing core found, for the network and not for the sentinel."""

from typing import Any

import pytest

from pipeline.budget.targets import Demands
from pipeline.fingerprint import Fingerprint
from pipeline.latency.measure import Effort
from pipeline.latency.statistics import Reading
from pipeline.selection import measuring
from pipeline.selection.measuring import NetworkTimer
from tests.selection.fakes import SMALL, make_chooser

EFFORT = Effort(rounds=8, calls=2)


class FakeRunner:
    def __init__(self, ms: float) -> None:
        self._ms = ms

    def run(self) -> Reading:
        return Reading(self._ms, self._ms)


class FakeBackend:
    takes = "onnx"
    fingerprint = Fingerprint("cpu", "fake", "0", 1, 1, "fake", "0", "fake", 1)

    def load(self, model: Any) -> FakeRunner:
        return FakeRunner(2.0 if model == "sentinel" else 7.0)


def test_the_network_is_timed_beside_the_sentinel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "make_sentinel", lambda _: "sentinel")
    monkeypatch.setattr(measuring, "make_network", lambda _, skeleton, genotype: (skeleton, genotype))
    chosen = make_chooser().choose(Demands(1e6, 50))
    assert chosen is not None
    shares: list[float] = []
    measured = NetworkTimer(FakeBackend(), None, EFFORT).time(SMALL, chosen.genotype, shares.append)
    assert measured == (7.0, 7.0, 7.0, 0.0)
    assert shares[-1] == 1.0
    slowed = NetworkTimer(FakeBackend(), 1.6, EFFORT).time(SMALL, chosen.genotype)
    assert slowed.noise_floor == pytest.approx(0.25), "the sentinel takes 2.0 ms where 1.6 are known"
    assert NetworkTimer(FakeBackend(), 3.0, EFFORT).time(SMALL, chosen.genotype).noise_floor == 0.0
