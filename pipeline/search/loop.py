"""Running a search to its end: saved on the way, watched by its guards, stopped when it goes wrong."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from rich.progress import Progress, TaskID
from torch import Tensor

from pipeline.console import progress_bar, say
from pipeline.resumable.checkpoint import Checkpoints
from pipeline.resumable.history import History
from pipeline.resumable.interruption import Interruption
from pipeline.resumable.ranks import average, is_writer, wait_for_all
from pipeline.search.architecture import SearchDiverged
from pipeline.search.engine import Search, StepReport

# A collapse may pass; the third epoch in a row ends the search.
_COLLAPSED_LOOKS = 3


@dataclass(frozen=True)
class SearchFiles:
    """Where a search writes while it runs."""

    checkpoints: Path
    history: Path
    tensorboard: Path


@dataclass(frozen=True)
class SearchResult:
    """The architecture that was found, and why the search ended where it did."""

    alphas: list[Tensor]
    unpenalized: list[Tensor]
    epoch: int
    stopped_early: str | None
    """The reason, if the search ended before its last epoch."""


def run_search(search: Search, files: SearchFiles, config_hash: str, checkpoint_seconds: float) -> SearchResult:
    """Advance to the end, from the last checkpoint if there is one."""
    checkpoints = Checkpoints(files.checkpoints, config_hash)
    saved = checkpoints.latest()
    if saved is not None:
        search.state.restore(saved.state)
        say(f"search: resumed from step {saved.step} of {search.total_steps}")
    resumed = search.state.step
    with (
        History(files.history, resumed, files.tensorboard, writes=is_writer()) as history,
        progress_bar() as bar,
    ):
        driver = _Driver(search, checkpoints, history, bar, checkpoint_seconds)
        if resumed == 0:  # long, and with nothing to save: a signal ends it at once
            cosine = search.check_hypergradient()
            history.append(0, hypergradient_check_cosine=cosine, steps_per_operation=search.steps_per_operation)
        else:
            history.append(resumed, resumed_from_step=resumed)
        with Interruption() as interruption:
            try:
                reason = driver.run(interruption)
            except SearchDiverged as error:
                reason = str(error)
                if search.state.best is None:
                    raise
    return _conclude(search, reason)


def _conclude(search: Search, reason: str | None) -> SearchResult:
    best, fallbacks = search.state.best, search.state.first_order_fallbacks
    if fallbacks:
        say(
            f"search: {fallbacks} of {search.state.alpha_step} architecture steps took the first-order gradient: the "
            "implicit solve ended no nearer than it began (residual ≥ 1); try [search] products = 'gauss_newton'"
        )
    if reason is None or best is None:
        alphas = [alpha.detach().clone() for alpha in search.state.alphas]
        return SearchResult(alphas, search.state.copy_unpenalized(), search.config.epochs - 1, reason)
    say(f"search: stopped early: {reason}; the architecture of epoch {best.epoch} is kept")
    return SearchResult(best.alphas, best.unpenalized, best.epoch, reason)


class Agreed(NamedTuple):
    """What all ranks do after this step."""

    stop: bool
    save: bool


class _Driver:
    """The loop around `Search.advance`."""

    def __init__(
        self, search: Search, checkpoints: Checkpoints, history: History, bar: Progress, checkpoint_seconds: float
    ) -> None:
        self.search, self.checkpoints, self.history, self.bar = search, checkpoints, history, bar
        self.checkpoint_seconds = checkpoint_seconds
        self.saved_at = self.reported_at = time.monotonic()
        self.reported_step = search.state.step

    def run(self, interruption: Interruption) -> str | None:
        """Advance until the end (None) or until a guard gives a reason to stop."""
        search = self.search
        task = self.bar.add_task("search", total=search.total_steps, completed=search.state.step, note="")
        while not search.finished:
            report = search.advance()
            if report is not None:
                self.history.append(search.state.step, **report.record())
                self._show(task, report)
            self.bar.update(task, completed=search.state.step)
            if search.at_look:
                self.history.append(search.state.step, **search.end_epoch().record())
                if search.state.collapsed_epochs >= _COLLAPSED_LOOKS:
                    return f"the architecture had collapsed at {_COLLAPSED_LOOKS} looks in a row"
            agreed = self._agree(interruption.requested)
            if agreed.stop:
                interruption.hold()
                self._save()
                raise interruption.stop(f"step {search.state.step} of {search.total_steps}")
            if search.at_epoch_end or agreed.save:
                self._save()
        return None

    def _agree(self, stop: bool) -> Agreed:
        """All ranks save at the same step: when the writer's clock says so, or when any of them was interrupted."""
        save = is_writer() and time.monotonic() - self.saved_at >= self.checkpoint_seconds
        flags = torch.tensor([float(stop), float(save)], device=self.search.state.alphas[0].device)
        return Agreed(*(share > 0 for share in average([flags])[0].tolist()))

    def _show(self, task: TaskID, report: StepReport) -> None:
        now = time.monotonic()
        images = (self.search.state.step - self.reported_step) * self.search.config.batch_size
        rate = images / max(now - self.reported_at, 1e-9)
        self.reported_at, self.reported_step = now, self.search.state.step
        limit = self.search.constraint.limits[0]
        note = (
            f"loss {report.validation_loss:.2f} · {limit.show(report.expected[limit.unit])} "
            f"of {limit.show(limit.at_most)} · {rate:.0f} images/s"
        )
        self.bar.update(task, note=note)

    def _save(self) -> None:
        if is_writer():
            self.checkpoints.save(self.search.state.step, self.search.state.record())
        wait_for_all()
        self.saved_at = time.monotonic()
