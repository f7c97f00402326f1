"""What a search would cost: its size, and its time estimated from a few steps that are thrown away."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from pipeline.search.engine import Search

# The first cycle also pays for what later ones find prepared; in a long one that does not matter.
_CYCLES, _LONG_S = 2, 10.0


@dataclass(frozen=True)
class Preview:
    """The size of a search, and the seconds of one cycle: T weight steps and one architecture step."""

    weights: int
    choices: int
    training_images: int
    validation_images: int
    steps: int
    inner_steps: int
    cycle_s: float

    @property
    def architecture_steps(self) -> int:
        return self.steps // self.inner_steps

    @property
    def eta_s(self) -> float:
        """Seconds of all cycles; the guards at the end of each epoch come on top."""
        return self.cycle_s * self.steps / self.inner_steps

    def lines(self) -> list[str]:
        """For a person."""
        return [
            f"supernet: {self.weights:,} weights, {self.choices} architecture parameters",
            f"images: {self.training_images:,} for the weights, {self.validation_images:,} for the architecture",
            f"steps: {self.steps:,} on the weights, {self.architecture_steps:,} on the architecture",
            f"time: about {timedelta(seconds=round(self.eta_s))} on this machine "
            f"({self.cycle_s:.2f} s for {self.inner_steps} weight steps and one on the architecture)",
        ]


def preview_search(search: Search, clock: Callable[[], float] = time.perf_counter) -> Preview:
    """Advance a new search by a few steps and time them; it must not be used afterwards."""
    cycle_s = 0.0
    for _ in range(_CYCLES):
        started, report = clock(), None
        while report is None:
            report = search.advance()
        cycle_s = clock() - started
        if cycle_s > _LONG_S:
            break
    return Preview(
        weights=sum(weight.numel() for weight in search.state.supernet.parameters()),
        choices=sum(alpha.numel() for alpha in search.state.alphas),
        training_images=len(search.train.images),
        validation_images=len(search.validation.images),
        steps=search.total_steps,
        inner_steps=search.inner_steps,
        cycle_s=cycle_s,
    )
