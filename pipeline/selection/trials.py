"""Trials: which networks are trained shortly, in what order, and the ledger that survives a kill.

The first ones are spread out over the networks considered; then, round by round, come those that the evidence so far
has for the best. How many there will be follows from the time of the first, which is kept in
the ledger, so that a killed run that goes on chooses the same networks.
"""

import math
import time
from collections.abc import Callable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pipeline.console import progress_bar, say
from pipeline.errors import PromiseBroken
from pipeline.resumable.history import Entry, History, read_history
from pipeline.resumable.ranks import share_out
from pipeline.selection.evidence import Evidence
from pipeline.selection.pool import Pool
from pipeline.selection.sources import Sources
from pipeline.selection.standing import Array
from pipeline.selection.structure import effective, overlap
from pipeline.space.genotype import Genotype

FEWEST_TRIALS = 8
_ROUND, _PARENTS = 4, 4
_FIRST_SHARE = 0.5  # of the trials go to networks that are spread out
_LEARNED = 0.02  # how far below that of guessing a loss must be to tell something, as a share of it


class TrainingBudget(NamedTuple):
    """How much may be spent on short trainings: minutes of one process, and at most so many networks."""

    minutes: float
    at_most: int

    def describe_time(self, seconds_each: float) -> str:
        """How long they take in all; the fewest that tell anything may take longer than was asked for."""
        minutes = self.trials(seconds_each) * seconds_each / 60
        if minutes <= 1.5 * self.minutes:
            return f", about {minutes:.1f} minutes in all"
        return f": about {minutes:.0f} minutes, more than the {self.minutes:g} asked for, as fewer tell nothing"

    def trials(self, seconds_each: float) -> int:
        return max(FEWEST_TRIALS, min(self.at_most, round(60 * self.minutes / max(seconds_each, 1e-9))))


def run_trial(
    train: Callable[[Genotype], float], genotype: Genotype, clock: Callable[[], float] = time.perf_counter
) -> Entry:
    """One short training, as the ledger keeps it."""
    started = clock()
    loss = train(genotype)
    seconds = clock() - started
    return {"genotype": genotype.record(), "loss": loss if math.isfinite(loss) else None, "seconds": seconds}


class Ledger:
    """Short trainings in the order they were asked for, on disk as each is done; several ranks share them out."""

    def __init__(
        self,
        path: Path,
        identity: str,
        train: Callable[[Genotype], float],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._train, self._clock = train, clock
        header, *found = read_history(path) or [{}]
        same = header.get("identity") == identity
        self._known: list[Entry] = found if same else []
        self._history = History(path, len(found) if same else -1)
        if not same:
            self._history.append(0, identity=identity)
        self.trained: list[Genotype] = []
        self.entries: list[Entry] = []

    @property
    def losses(self) -> list[float]:
        """Validation losses of the trained networks; +∞ where a training diverged."""
        return [math.inf if entry["loss"] is None else float(entry["loss"]) for entry in self.entries]

    def try_out(self, genotypes: Sequence[Genotype], report: Callable[[str], object]) -> None:
        """Train networks, or read back what was trained before."""
        known = self._recall(genotypes)
        fresh = share_out(lambda one: run_trial(self._train, one, self._clock), genotypes[len(known) :])
        for place, genotype in enumerate(genotypes):
            entry = known[place] if place < len(known) else next(fresh)
            self.trained.append(genotype)
            self.entries.append(entry)
            if place >= len(known):
                self._history.append(len(self.entries), **entry)
            report("diverged" if entry["loss"] is None else f"validation loss {entry['loss']:.3f}")

    def _recall(self, genotypes: Sequence[Genotype]) -> list[Entry]:
        """What is known of the first of them; once others are asked for, what was chosen by other evidence goes."""
        done = len(self.entries)
        pairs = zip(self._known[done:], genotypes, strict=False)
        same = list(takewhile(lambda pair: pair[0]["genotype"] == pair[1].record(), pairs))
        if done + len(same) < len(self._known) and len(same) < len(genotypes):
            del self._known[done + len(same) :]
            self._history.cut_back(done + len(same))
        return [entry for entry, _ in same]

    def close(self) -> None:
        self._history.close()


def gather_evidence(
    pool: Pool, sources: Sources, ledger: Ledger, budget: TrainingBudget, guessing_loss: float = math.inf
) -> Evidence:
    """The evidence of as many short trainings as the budget allows, on networks of the pool and around its best.

    Where the first half has learned nothing, by the loss of guessing, there are no others, and none counts.
    """
    say(f"looking at {len(pool.networks)} networks that may do, before any is trained …")
    names, reference = sources.names, sources.look(pool.networks)
    with progress_bar() as bar:
        task = bar.add_task("short trainings", total=budget.at_most, note="")

        def report(note: str) -> None:
            bar.update(task, advance=1, note=note)

        ledger.try_out(pool.networks[:1], report)
        seconds = float(ledger.entries[0]["seconds"])
        planned = budget.trials(seconds)
        say(f"{planned} short trainings of about {seconds:.0f} s each{budget.describe_time(seconds)}")
        bar.update(task, total=planned)
        ledger.try_out(spread_out(pool.networks, max(FEWEST_TRIALS // 2, round(_FIRST_SHARE * planned)))[1:], report)
        if math.isfinite(least := min(ledger.losses)) and least > (1 - _LEARNED) * guessing_loss:
            bar.finish(task)
            say(_nothing_learned(len(ledger.losses), least, guessing_loss))
            return Evidence(names, sources.look([]), [], reference, sources.trusts_search)
        while True:
            evidence = _fit(names, sources, ledger, reference)
            wanted = min(planned - len(ledger.entries), _ROUND)
            chosen = _next_ones(evidence, pool, sources, ledger, wanted) if wanted > 0 else []
            if not chosen:
                break
            ledger.try_out(chosen, report)
        bar.finish(task)
    _name_diverged(ledger)
    return evidence


def _nothing_learned(count: int, least_loss: float, guessing_loss: float) -> str:
    return (
        f"{count} short trainings have learned nothing (least validation loss {least_loss:.2f}, guessing has "
        f"{guessing_loss:.2f}) and are left out; raise [discretize] evidence_steps"
    )


def _fit(names: Sequence[str], sources: Sources, ledger: Ledger, reference: Array) -> Evidence:
    if not any(map(math.isfinite, ledger.losses)):
        raise PromiseBroken(
            f"all {len(ledger.losses)} short trainings diverged; lower [search] batch_size or check the images with "
            "`pipeline check`, or set [discretize] evidence_minutes = 0"
        )
    return Evidence(names, sources.look(ledger.trained), ledger.losses, reference, sources.trusts_search)


def _next_ones(evidence: Evidence, pool: Pool, sources: Sources, ledger: Ledger, count: int) -> list[Genotype]:
    """The best by the evidence so far that were not trained."""
    trained = {effective(genotype) for genotype in ledger.trained}

    def ranked(networks: Sequence[Genotype]) -> list[Genotype]:
        order = np.argsort(-evidence.predict(sources.look(networks)), kind="stable")
        return [networks[index] for index in order]

    around = pool.neighbours_of(ranked([*pool.networks, *ledger.trained])[:_PARENTS], 2, seed=len(ledger.entries))
    fresh = {effective(genotype): genotype for genotype in [*pool.networks, *around]}
    waiting = [genotype for choices, genotype in fresh.items() if choices not in trained]
    return ranked(waiting)[:count] if waiting else []


def spread_out(pool: Sequence[Genotype], count: int) -> list[Genotype]:
    """Networks of the pool that are unlike each other: the first, then always the one farthest from those taken."""
    choices = [effective(genotype) for genotype in pool]
    taken, nearest = [0], np.array([overlap(choices[0], other) for other in choices])
    while len(taken) < min(count, len(set(choices))):
        taken.append(int(np.argmin(nearest)))
        nearest = np.maximum(nearest, [overlap(choices[taken[-1]], other) for other in choices])
    return [pool[index] for index in taken]


def _name_diverged(ledger: Ledger) -> None:
    for genotype, loss in zip(ledger.trained, ledger.losses, strict=True):
        if not math.isfinite(loss):
            say(f"a short training diverged and counts as the worst: {genotype.record()}")
