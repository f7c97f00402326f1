"""What a training leaves on disk while it runs: the last state, the last whole epoch, and the best weights.

Only the writer reads and writes; every rank gets what the writer read. Ranks hold the same state, so that one file
serves all of them and no agreement is needed on when to save.
"""

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from pipeline.resumable.checkpoint import Checkpoints, Saved, State
from pipeline.resumable.ranks import broadcast, is_writer
from pipeline.training.job import Position
from pipeline.training.step import Stepper

# Checkpoints within an epoch may take this share of the time, however slow the disk.
_LARGEST_SHARE = 0.02


class Restored(NamedTuple):
    """Where a training stood, and its state."""

    position: Position
    state: State


class Keeper:
    """The three kinds of checkpoints of one training."""

    def __init__(self, folder: Path, config_hash: str, interval_s: float, clock: Callable[[], float]) -> None:
        self.folder, self._interval_s, self._clock = folder, interval_s, clock
        self._last, self._epoch, self._best = (
            Checkpoints(folder / name, config_hash) for name in ("last", "epoch", "best")
        )
        self._saved_at = clock()
        self._cost_s = 0.0

    def newest(self) -> Restored | None:
        """The furthest state; one from after a roll-back is further than any from before it."""
        found = []
        if is_writer():
            found = [_restore(saved) for saved in (self._last.latest(), self._epoch.latest()) if saved is not None]
        furthest = max(found, key=_progress, default=None)
        return broadcast(furthest)

    def last_epoch(self) -> Restored | None:
        """The state after the last whole epoch."""
        saved = self._epoch.latest() if is_writer() else None
        return broadcast(_restore(saved) if saved is not None else None)

    def is_due(self) -> bool:
        """Whether it is time for a checkpoint within the epoch."""
        return self._clock() - self._saved_at >= max(self._interval_s, self._cost_s / _LARGEST_SHARE)

    def save(self, position: Position, stepper: Stepper, whole_epoch: bool = False) -> None:
        if is_writer():
            start = time.monotonic()
            state = {"position": asdict(position), "precision": stepper.precision.name, **stepper.state()}
            (self._epoch if whole_epoch else self._last).save(position.step, state)
            self._cost_s = time.monotonic() - start
        self._saved_at = self._clock()

    def save_best(self, step: int, weights: State) -> None:
        if is_writer():
            self._best.save(step, weights)

    def best(self) -> State | None:
        saved = self._best.latest() if is_writer() else None
        return broadcast(saved.state if saved is not None else None)


def _progress(restored: Restored) -> tuple[int, ...]:
    """At one step: the whole epoch is further than its last batch, and hyper steps of the next one further still."""
    at = restored.position
    return at.roll_backs, at.step, -at.batch, at.hyper_batch


def _restore(saved: Saved) -> Restored:
    return Restored(Position(**saved.state["position"]), saved.state)
