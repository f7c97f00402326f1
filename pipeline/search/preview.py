"""What a search would cost: its size, and its time and memory, estimated from a few small steps that are thrown away.

With b images a step, a cycle (T weight steps and one architecture step) takes s + c·b seconds: s and c are those of the
two largest batches that can be timed in seconds.
"""

import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from pipeline.config import Config
from pipeline.search.engine import Search

_FIRST_BATCH = 2  # one image alone has no variance to normalize by
_PATIENCE_S, _MOST_BYTES = 12.0, 1_000_000_000  # for all timing together, and beyond what was taken before it
_SHORT_S = 600.0  # a search that nobody wants shorter


class Cycle(NamedTuple):
    """One timed cycle."""

    batch: int
    seconds: float
    peak_bytes: int


@dataclass(frozen=True)
class Preview:
    """The size of a search, and the cycles that were timed, in rising order of their batch."""

    weights: int
    choices: int
    training_images: int
    validation_images: int
    steps: int
    inner_steps: int
    batch_size: int
    timed: tuple[Cycle, ...]

    @property
    def architecture_steps(self) -> int:
        return self.steps // self.inner_steps

    @property
    def per_image_s(self) -> float:
        """c: what an image more in a step adds to a cycle."""
        if len(self.timed) == 1:
            return self.timed[0].seconds / self.timed[0].batch
        before, last = self.timed[-2:]
        return max((last.seconds - before.seconds) / (last.batch - before.batch), 0.0)

    @property
    def cycle_s(self) -> float:
        last = self.timed[-1]
        return last.seconds + self.per_image_s * (self.batch_size - last.batch)

    @property
    def eta_s(self) -> float:
        """Seconds of all cycles; the guards at the end of each epoch come on top."""
        return self.cycle_s * self.steps / self.inner_steps

    @property
    def memory_bytes(self) -> float:
        """The peak of the process at the whole batch."""
        before, last = self.timed[0], self.timed[-1]
        if last.batch == before.batch:
            return last.peak_bytes
        per_image = (last.peak_bytes - before.peak_bytes) / (last.batch - before.batch)
        return last.peak_bytes + per_image * (self.batch_size - last.batch)

    def lines(self, config: Config) -> list[str]:
        """For a person."""
        found = [
            f"supernet: {self.weights:,} weights, {self.choices} architecture parameters",
            f"images: {self.training_images:,} for the weights, {self.validation_images:,} for the architecture",
            f"steps: {self.steps:,} on the weights, {self.architecture_steps:,} on the architecture",
            f"time: about {_span(self.eta_s)} on this machine ({self.cycle_s:.2f} s for {self.inner_steps} weight "
            f"steps and one on the architecture{self._how()}); memory: about {self.memory_bytes / 1e9:.1f} GB",
        ]
        return found if self.eta_s < _SHORT_S else [*found, f"shorter: {'; '.join(self._shorter(config))}"]

    def _how(self) -> str:
        batches = [str(cycle.batch) for cycle in self.timed[-2:]]
        if self.timed[-1].batch == self.batch_size:
            return ""
        return f", scaled from steps of {' and '.join(batches)} images to {self.batch_size}"

    def _shorter(self, config: Config) -> list[str]:
        """Settings that shrink the search, each with the time it would take; what is not per image stays."""
        cycles, images_s = self.steps / self.inner_steps, self.per_image_s * self.batch_size
        epochs, channels, resolution = config.search.epochs, config.search.channels, config.data.resolution
        return [
            f"[search] epochs = {max(epochs // 2, 1)} takes about {_span(self.eta_s * max(epochs // 2, 1) / epochs)}",
            f"[data] resolution = {resolution // 2} about {_span((self.cycle_s - 3 / 4 * images_s) * cycles)}",
            f"[search] channels = {max(channels // 2, 1)} about {_span((self.cycle_s - 1 / 2 * images_s) * cycles)}",
        ]


def _span(seconds: float) -> str:
    return str(timedelta(seconds=round(max(seconds, 0.0))))


def preview_search(
    make: Callable[[int], Search],
    batch_size: int,
    clock: Callable[[], float] = time.perf_counter,
    peak: Callable[[], int] | None = None,
) -> Preview:
    """Time cycles of ever larger batches of searches that `make` makes, as far as patience and memory go."""
    peak = peak or _peak_bytes
    whole, timed, started, taken = make(batch_size), list[Cycle](), clock(), peak()
    batch = min(_FIRST_BATCH, batch_size)
    while True:
        before = clock()
        timed.append(_time_cycle(make(batch), batch, clock, peak))
        # twice the images take about twice the time and memory
        next_s, next_bytes = 2 * (clock() - before), 2 * (peak() - taken)
        if batch == batch_size or clock() - started + next_s > _PATIENCE_S or next_bytes > _MOST_BYTES:
            break
        batch = min(2 * batch, batch_size)
    return Preview(
        weights=sum(weight.numel() for weight in whole.state.supernet.parameters()),
        choices=sum(alpha.numel() for alpha in whole.state.alphas),
        training_images=len(whole.train.images),
        validation_images=len(whole.validation.images),
        steps=whole.total_steps,
        inner_steps=whole.inner_steps,
        batch_size=batch_size,
        timed=tuple(timed),
    )


def _time_cycle(search: Search, batch: int, clock: Callable[[], float], peak: Callable[[], int]) -> Cycle:
    """The second cycle of a search, for the first also pays for what later ones find prepared; a long first will do."""
    seconds = 0.0
    for _ in range(2):
        started, report = clock(), None
        while report is None:
            report = search.advance()
        seconds = clock() - started
        if seconds > _PATIENCE_S:
            break
    return Cycle(batch, seconds, peak())


def _peak_bytes() -> int:
    """The largest memory that this process has taken; Linux counts it in kilobytes, macOS in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
