"""What was measured of one network or file, as certificates and contracts hold it."""

import time
from collections.abc import Callable
from typing import NamedTuple

from pipeline.console import say
from pipeline.errors import PromiseBroken

# Noisier than this, a figure is provisional: it holds only until a better one is made.
FIRM_NOISE_FLOOR = 0.05
_PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0)


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


def measure_quietly(
    measure: Callable[[], Measured], max_noise_floor: float, pause: Callable[[float], None] = time.sleep
) -> Measured:
    """The first measurement at a noise floor that is low enough, or the quietest of six, at growing intervals."""
    quietest = measure()
    for pause_s in _PAUSES_S:
        if quietest.noise_floor <= max_noise_floor:
            break
        say(f"noise floor {quietest.noise_floor:.1%}, {max_noise_floor:.1%} allowed: timed again in {pause_s:g} s")
        pause(pause_s)
        quietest = min(quietest, measure(), key=lambda measured: measured.noise_floor)
    return quietest


def certain(measured: Measured, max_noise_floor: float) -> Measured:
    """The measurement, refused when the machine was too noisy for it to certify anything."""
    if measured.noise_floor > max_noise_floor:
        raise PromiseBroken(
            f"the machine is too noisy to certify a latency: the noise floor is {measured.noise_floor:.1%} at best "
            f"where [target] max_noise_floor allows {max_noise_floor:.1%}; stop other work and try again, or raise it "
            "(the certificate is then marked provisional)"
        )
    return measured
