"""The target machine: the one way to time a network or a file."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

from pipeline.config import TargetConfig
from pipeline.console import progress_bar, say
from pipeline.errors import PromiseBroken
from pipeline.latency.budget_rule import Measured
from pipeline.latency.devices import open_device
from pipeline.latency.measure import CAREFUL, Device, Effort, Journal, measure_models
from pipeline.latency.models import make_network, make_sentinel
from pipeline.latency.statistics import Reading, Timing, tail_interval
from pipeline.space.genotype import Genotype
from pipeline.space.skeleton import Skeleton

# Noisier than this, a figure is provisional: it holds only until a better one is made.
FIRM_NOISE_FLOOR = 0.05
P50_MEANS = (
    "p50 is the median of undisturbed calls, which other work on the machine moves least; raw_p50 is the median of all "
    "calls as they came, and what a loop of your own shows while other work shares the machine"
)
_PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0)
# Rounds over those of the effort until a tail is known, and calls that must lie beyond its percentile.
_LONGER, _CALLS_BEYOND = (1, 2, 4), 10


@dataclass(frozen=True)
class TargetMachine:
    """Where the model will run, how fast it is known to run the sentinel, and how well latencies must be known."""

    device: Device
    sentinel_ms: float | None = None
    percentiles: tuple[int, ...] = (50,)
    max_noise_floor: float = FIRM_NOISE_FLOOR
    effort: Effort = CAREFUL

    @classmethod
    def of(cls, target: TargetConfig, backend: str, sentinel_ms: float | None = None) -> Self:
        """The machine that [target] describes, with the backend of [profile]."""
        device = open_device(target.device, target.threads, target.batch, backend)
        return cls(device, sentinel_ms, (target.percentile,), target.max_noise_floor)

    @cached_property
    def _sentinel(self) -> Any:
        return make_sentinel(self.device)

    def time_network(self, skeleton: Skeleton, genotype: Genotype) -> Measured:
        """The latency of a network with random weights."""
        return self.time([make_network(self.device, skeleton, genotype)])[0]

    def time(self, models: Sequence[Any], journal: Journal | None = None) -> list[Measured]:
        """One result per model (files, or what else the device takes), in interleaved rounds so that they compare.

        Tails need more calls than a median: rounds are added until their intervals are as narrow as the noise floor
        must be, or four times as many have not helped. `journal` gets all readings, under "0", "1" ….
        """
        journal, named = Journal() if journal is None else journal, {str(i): model for i, model in enumerate(models)}
        found: list[Measured] = []
        with progress_bar(transient=True) as bar:
            task = bar.add_task("timing on the target", total=100, note="")
            for longer in _LONGER:
                effort = replace(self.effort, rounds=longer * rounds_for(self.effort, self.percentiles))
                measure_models(
                    self.device,
                    named,
                    self._sentinel,
                    effort,
                    journal,
                    lambda _, share: bar.update(task, completed=round(100 * share)),
                )
                found = list(summarize_journal(journal, list(named), self.sentinel_ms).values())
                worst = max(one.noise_at(*self.percentiles) for one in found)
                if worst <= self.max_noise_floor or found[0].noise_floor > self.max_noise_floor:
                    break  # more calls make no machine quieter
                bar.update(task, note=f"known to ± {worst:.0%}")
        return found


def rounds_for(effort: Effort, percentiles: Sequence[int]) -> int:
    """The rounds of the effort, or as many as the tails need."""
    tail = max(percentiles)
    calls = _CALLS_BEYOND * 100 / (100 - tail) if tail > 50 else 0
    return max(effort.rounds, math.ceil(calls / effort.calls))


def summarize_journal(journal: Journal, names: Sequence[str], known_sentinel_ms: float | None) -> dict[str, Measured]:
    """What the readings of these models say, on a machine that is known to run the sentinel so fast."""
    measurement = journal.measurement()
    noise = measurement.noise_beside(known_sentinel_ms)
    return {name: _summarize(measurement.timings[name], journal.readings[name], noise) for name in names}


def _summarize(timing: Timing, readings: Sequence[Reading], noise_floor: float) -> Measured:
    p95, p99 = (tail_interval(readings, percentile) for percentile in (95, 99))
    return Measured(timing.p50_ms, timing.p95_ms, timing.p99_ms, noise_floor, timing.raw_p50_ms, p95, p99)


def measure_quietly(
    measure: Callable[[], Measured],
    percentiles: Sequence[int],
    max_noise_floor: float,
    pause: Callable[[float], None] = time.sleep,
) -> Measured:
    """The first measurement in which the percentiles are known well enough, or the best known of six, ever later."""
    best = last = measure()
    for pause_s in _PAUSES_S:
        if best.noise_at(*percentiles) <= max_noise_floor:
            break
        noise = last.noise_at(*percentiles)
        say(f"noise floor {noise:.1%}, {max_noise_floor:.1%} allowed: timed again in {pause_s:g} s")
        pause(pause_s)
        last = measure()
        best = min(best, last, key=lambda measured: measured.noise_at(*percentiles))
    return best


def certain(measured: Measured, percentile: int, max_noise_floor: float) -> Measured:
    """The measurement, refused when the machine was too noisy for it to certify anything."""
    noise = measured.noise_at(percentile)
    if noise > max_noise_floor:
        low, high = measured.interval_ms(percentile)
        raise PromiseBroken(
            f"the machine is too noisy to certify a latency: p{percentile} lies between {low:.4g} and {high:.4g} ms, "
            f"a noise floor of {noise:.1%} at best where [target] max_noise_floor allows {max_noise_floor:.1%}; "
            "stop other work and try again, or raise it (the certificate is then marked provisional)"
        )
    return measured
