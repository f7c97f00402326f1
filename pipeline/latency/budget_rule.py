"""What was measured of a network, and the one rule for what fits a budget.

A network *fits* when its measured latency, at the percentile that was promised, is at most the budget. A measurement
is never exact: where its interval holds the budget, the result is marked as within the noise of it. It *spares* when
the machine may drift by some percent until it is timed again, and it still fits.
"""

from typing import Any, NamedTuple

from pipeline.artifacts.known_latency import MEASURED, PREDICTED, Basis
from pipeline.latency.statistics import Interval

# One file on a quiet machine, timed for a minute in five processes: 2.5 % between the slowest and the fastest turn.
_DRIFT = 0.02


class Measured(NamedTuple):
    """Latency of one call on the wall clock. `noise_floor` is half the 95 % interval of p50, as a share of it.

    p50 is that of undisturbed calls, the rest is of all calls. What was looked up, not timed, has no more than that.
    Where nobody can ask the target, its table speaks for it (`basis`): such a figure has no noise, and an interval.
    """

    p50_ms: float
    p95_ms: float
    p99_ms: float
    noise_floor: float
    raw_p50_ms: float | None = None
    p95_interval_ms: Interval | None = None
    p99_interval_ms: Interval | None = None
    p50_interval_ms: Interval | None = None
    basis: Basis = MEASURED

    @property
    def is_predicted(self) -> bool:
        return self.basis == PREDICTED

    def at(self, percentile: int) -> float:
        """The latency at 50, 95 or 99."""
        return {50: self.p50_ms, 95: self.p95_ms, 99: self.p99_ms}[percentile]

    def interval_ms(self, percentile: int) -> Interval:
        """The 95 % interval of a percentile: that of its own calls, and no narrower than the noise floor."""
        owns = {50: self.p50_interval_ms, 95: self.p95_interval_ms, 99: self.p99_interval_ms}
        at_ms, own = self.at(percentile), owns[percentile]
        low, high = at_ms * (1 - self.noise_floor), at_ms * (1 + self.noise_floor)
        return Interval(min(low, own.low), max(high, own.high)) if own else Interval(low, high)

    def noise_at(self, *percentiles: int) -> float:
        """Half the interval as a share of the latency, at the percentile of those where it is largest."""
        if self.is_predicted:
            return self.noise_floor
        intervals = {percentile: self.interval_ms(percentile) for percentile in percentiles if percentile != 50}
        tails = [(high - low) / 2 / self.at(percentile) for percentile, (low, high) in intervals.items()]
        return max([self.noise_floor, *tails])

    def keeps(self, budget_ms: float, percentile: int) -> bool:
        """The one rule for "fits"."""
        return bool(self.at(percentile) <= budget_ms)

    def leaving_drift(self, budget_ms: float) -> float:
        """The latency to aim at, so that the budget is kept when the machine has drifted; a prediction does not."""
        return budget_ms if self.is_predicted else (1 - _DRIFT) * budget_ms

    def spares(self, budget_ms: float, percentile: int) -> bool:
        """Whether another measurement, hours later, will most likely keep the budget too."""
        return self.keeps(self.leaving_drift(budget_ms), percentile)

    def is_within_noise_of(self, budget_ms: float, percentile: int) -> bool:
        """Whether another measurement may well fall on the other side of the budget."""
        low, high = self.interval_ms(percentile)
        return bool(low <= budget_ms < high)

    def record(self) -> dict[str, Any]:
        return {"p50": self.p50_ms, "p95": self.p95_ms, "p99": self.p99_ms, "raw_p50": self.raw_p50_ms}

    def record_beside(self, budget_ms: float, percentile: int) -> dict[str, Any]:
        """As certificates and model cards hold it: the noise floor and the interval are those of the percentile."""
        known: dict[str, Any] = {
            "measured_ms": self.record(),
            "measured_interval_ms": list(self.interval_ms(percentile)),
        }
        if self.is_predicted:
            known = {"measured_ms": None, "expected_ms": self.record()}
            known["expected_interval_ms"] = list(self.interval_ms(percentile))
        return {
            "basis": self.basis,
            **known,
            "noise_floor": None if self.is_predicted else self.noise_at(percentile),
            "within_noise": self.is_within_noise_of(budget_ms, percentile),
        }
