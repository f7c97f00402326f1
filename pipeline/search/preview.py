"""What a search would cost: its size, and its time and memory, estimated from a few small steps that are thrown away.

With b images a step, all steps take s + c·b seconds: s and c are those of the two largest batches that can be timed in
seconds. A weight step and an architecture step are timed apart, since one comes so much more often than the other.
Where an architecture step judges groups of networks, one group is timed for all, and two networks of the implicit
part; to judge a network, forward alone, takes a third of a weight step.
"""

import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from pipeline.search.engine import Search
from pipeline.search.guards import FEW_STEPS
from pipeline.search_config import SearchConfig
from pipeline.space.plan import nearest_resolution
from pipeline.space.skeleton import Skeleton

_FIRST_BATCH = 2  # one image alone has no variance to normalize by
_TIMED_STEPS = 2  # before an architecture step, instead of T
_MOST_CYCLES, _BRIEF_S = 5, 1.0  # and the seconds of computing after which two will do
_TIMED_NETWORKS = 2  # of the implicit part, the fewest that there can be
_FORWARD = 1 / 3  # of a weight step
_GROWTHS = (4, 2)  # from one batch to the next: the first that memory allows
# of computing for all timing together, whatever else the machine does, and beyond what was taken before it
_PATIENCE_S, _MOST_BYTES = 12.0, 1_000_000_000
_SHORT_S = 600.0  # a search that nobody wants shorter
_BUSY = 1.5
_WORTH_NAMING = 0.1  # of the time, that a setting must save
_LEAST_BATCH = 8  # below which BatchNorm tells little


class Timed(NamedTuple):
    """Steps of so many images, and the largest memory of the process until then."""

    batch: int
    weight_s: float
    architecture_s: float
    peak_bytes: int
    slowdown: float = 1.0
    """Seconds by the clock for one of computing: more where other programs took the machine."""


@dataclass(frozen=True)
class Preview:
    """The size of a search, and the steps that were timed, in rising order of their batch."""

    weights: int
    choices: int
    training_images: int
    validation_images: int
    steps: int
    steps_per_operation: int
    architecture_steps: int
    looked_batches: int
    inner_steps: int
    batch_size: int
    graphs: float
    """The graphs that an architecture step holds at once, over those that were timed."""
    idle_bytes: int
    """What the process had taken before the first step."""
    timed: tuple[Timed, ...]

    def total_s(self, timed: Timed) -> float:
        """All steps, and what the guards run forward, if they were as these."""
        steps = self.steps + _FORWARD * self.looked_batches
        return steps * timed.weight_s + self.architecture_steps * timed.architecture_s

    @property
    def per_image_s(self) -> float:
        """c: what an image more in a step adds to the whole."""
        last = self.timed[-1]
        most = self.total_s(last) / last.batch  # s is not negative
        if len(self.timed) == 1:
            return most
        before = self.timed[-2]
        return min(max((self.total_s(last) - self.total_s(before)) / (last.batch - before.batch), 0.0), most)

    @property
    def eta_s(self) -> float:
        """Seconds of all steps and looks."""
        last = self.timed[-1]
        return self.total_s(last) + self.per_image_s * (self.batch_size - last.batch)

    @property
    def memory_bytes(self) -> float:
        """The peak of the process at the whole batch, when all networks of the implicit part are in memory together."""
        before, last = self.timed[0], self.timed[-1]
        taken = last.peak_bytes - self.idle_bytes
        per_image = taken / last.batch
        if last.batch > before.batch:
            per_image = (last.peak_bytes - before.peak_bytes) / (last.batch - before.batch)
        return self.idle_bytes + self.graphs * (taken + per_image * (self.batch_size - last.batch))

    def lines(self, config: SearchConfig, skeleton: Skeleton) -> list[str]:
        """For a person."""
        found = [
            f"supernet: {self.weights:,} weights, {self.choices} architecture parameters",
            f"images: {self.training_images:,} for the weights, {self.validation_images:,} for the architecture",
            f"steps: {self.steps:,} on the weights, {self.steps_per_operation:,} of them with any one operation, and "
            f"{self.architecture_steps:,} on the architecture",
            f"time: about {self._times()}{self._how()}; memory: about {self.memory_bytes / 1e9:.1f} GB",
        ]
        shorter = "; ".join(self._shorter(config, skeleton)) if self.eta_s >= _SHORT_S else ""
        basis = " beside them" if self.timed[-1].slowdown >= _BUSY else ""
        return [*found, f"shorter{basis}: {shorter}"] if shorter else found

    def _how(self) -> str:
        if self.timed[-1].batch == self.batch_size:
            return ""
        if len(self.timed) == 1:
            return f" at the most (scaled from steps of {self.timed[0].batch} images alone to {self.batch_size})"
        batches = " and ".join(str(timed.batch) for timed in self.timed[-2:])
        return f" (scaled from steps of {batches} images to {self.batch_size})"

    def _times(self) -> str:
        """Where other programs are at work, also what it would take without them: their load comes and goes."""
        slowdown = self.timed[-1].slowdown
        if slowdown < _BUSY:
            return f"{_span(self.eta_s)} on this machine"
        quiet = _span(self.eta_s / slowdown)
        return f"{quiet} on a quiet machine, {_span(self.eta_s)} beside the other programs that are at work on it now"

    def _shorter(self, config: SearchConfig, skeleton: Skeleton) -> Iterator[str]:
        """Settings that shrink the search, each with the time it would take; what is not per image stays."""
        images_s = self.per_image_s * self.batch_size
        epochs, channels = config.epochs // 2, skeleton.channels // 2 - skeleton.channels // 2 % 2
        if epochs:
            few = self.steps_per_operation * epochs // config.epochs
            doubt = f" (and makes {few:,} steps per operation, below {FEW_STEPS:,})" if few < FEW_STEPS else ""
            yield f"[search] epochs = {epochs} takes about {_span(self.eta_s * epochs / config.epochs)}{doubt}"
        if epochs and config.batch_size // 2 >= _LEAST_BATCH and images_s / 2 >= _WORTH_NAMING * self.eta_s:
            batch, time_s = config.batch_size // 2, self.eta_s - images_s / 2
            yield f"[search] batch_size = {batch} with epochs = {epochs}, as many steps, about {_span(time_s)}"
        resolution = nearest_resolution(skeleton, skeleton.resolution // 2)
        kept = {"resolution": (resolution, (resolution / skeleton.resolution) ** 2)}
        kept["channels"] = (channels, channels / skeleton.channels)
        for name, (value, share) in kept.items():
            saved_s = (1 - share) * images_s
            if value and saved_s >= _WORTH_NAMING * self.eta_s:
                yield f"[search] {name} = {value} about {_span(self.eta_s - saved_s)}"


def _span(seconds: float) -> str:
    return str(timedelta(seconds=round(max(seconds, 0.0))))


class Meters(NamedTuple):
    """What is read before and after a step: seconds by the clock and of computing, and the largest memory so far."""

    clock: Callable[[], float]
    computing: Callable[[], float]
    peak_bytes: Callable[[], int]


def preview_search(
    make: Callable[[Mapping[str, int]], Search], batch_size: int, meters: Meters | None = None
) -> Preview:
    """Time steps of ever larger batches of searches that `make` makes by settings, as far as patience and memory go."""
    meters = meters or Meters(time.perf_counter, time.process_time, _peak_bytes)
    whole, timed, spent = make({"batch_size": batch_size}), list[Timed](), list[float]()
    few, idle_bytes = {"implicit_networks": _TIMED_NETWORKS}, meters.peak_bytes()
    batch = min(_FIRST_BATCH, batch_size)
    while True:
        before = meters.computing()
        timed.append(_time_steps(whole, make({"batch_size": batch, **few}), batch, meters))
        spent.append(meters.computing() - before)
        # most of a small step is not for its images; two of them show how much is
        next_s = spent[-1] * (spent[-1] / max(spent[-2], 1e-9) if len(spent) > 1 else 1.0)
        taken = meters.peak_bytes() - idle_bytes
        growth = next((growth for growth in _GROWTHS if growth * taken <= _MOST_BYTES), None)
        if batch == batch_size or sum(spent) + next_s > _PATIENCE_S or growth is None:
            break
        batch = min(growth * batch, batch_size)
    return Preview(
        weights=sum(weight.numel() for weight in whole.state.supernet.parameters()),
        choices=sum(alpha.numel() for alpha in whole.state.alphas),
        training_images=len(whole.train.images),
        validation_images=len(whole.validation.images),
        steps=whole.total_steps,
        steps_per_operation=whole.steps_per_operation,
        architecture_steps=whole.architecture_steps,
        looked_batches=whole.looked_batches,
        inner_steps=whole.inner_steps,
        batch_size=batch_size,
        graphs=whole.implicit_networks / min(whole.implicit_networks, _TIMED_NETWORKS),
        idle_bytes=idle_bytes,
        timed=tuple(timed),
    )


class _Step(NamedTuple):
    """Seconds of a step, by the clock and of computing."""

    clock_s: float
    computing_s: float


class _Cycle(NamedTuple):
    """The fastest weight step of a cycle, and its last step, which is one on the architecture as well."""

    weight: _Step
    last: _Step


def _time_steps(whole: Search, search: Search, batch: int, meters: Meters) -> Timed:
    """The fastest steps of a few cycles: another program that takes the machine for a moment makes hours of it.

    A cycle is two weight steps and one on the architecture, without the warm-up: each takes what it takes later. The
    first also pays for what later ones find prepared, and counts only where it took so long that it must do.
    """
    search.inner_steps, search.warmup_epochs = min(search.inner_steps, _TIMED_STEPS), 0
    started, cycles = meters.computing(), list[_Cycle]()
    while len(cycles) < _MOST_CYCLES:
        cycles.append(_time_cycle(search, meters))
        spent = meters.computing() - started
        if spent > _PATIENCE_S / 2 or (len(cycles) > 1 and spent > _BRIEF_S):
            break
    prepared = cycles[1:] or cycles
    weight, last = min(one.weight for one in prepared), min(one.last for one in prepared)
    judging_s = search.group_size * _FORWARD * weight.clock_s
    implicit_s = max(last.clock_s - weight.clock_s - judging_s, 0.0)
    architecture_s = whole.judged_groups * judging_s + whole.implicit_networks / search.implicit_networks * implicit_s
    slowdown = (weight.clock_s + last.clock_s) / max(weight.computing_s + last.computing_s, 1e-9)
    return Timed(batch, weight.clock_s, architecture_s, meters.peak_bytes(), slowdown)


def _time_cycle(search: Search, meters: Meters) -> _Cycle:
    steps, report = list[_Step](), None
    while report is None:
        clock, computing = meters.clock(), meters.computing()
        report = search.advance()
        steps.append(_Step(meters.clock() - clock, meters.computing() - computing))
    return _Cycle(min(steps[:-1], default=steps[-1]), steps[-1])


def _peak_bytes() -> int:
    """The largest memory that this process has taken; Linux counts it in kilobytes, macOS in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
