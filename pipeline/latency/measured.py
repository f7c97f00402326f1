"""What was measured of one network or file, as certificates and contracts hold it."""

from typing import NamedTuple


class Measured(NamedTuple):
    """Wall-clock percentiles of one call, and the noise floor of the machine meanwhile (a share)."""

    p50_ms: float
    p95_ms: float
    p99_ms: float
    noise_floor: float

    def at(self, percentile: int) -> float:
        """The latency at 50, 95 or 99."""
        return {50: self.p50_ms, 95: self.p95_ms, 99: self.p99_ms}[percentile]

    def record(self) -> dict[str, float]:
        return {"p50": self.p50_ms, "p95": self.p95_ms, "p99": self.p99_ms}
