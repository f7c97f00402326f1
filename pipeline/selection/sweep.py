"""Several budgets from one search: in what order, which one is trained, and where the files of each lie."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from pipeline.errors import PromiseBroken, UserError
from pipeline.selection.certification import OverBudget
from pipeline.selection.outcome import Outcome


class Sweep(NamedTuple):
    """What became of every budget, in rising order."""

    outcomes: tuple[Outcome, ...]
    refusals: dict[float, OverBudget]


def order_budgets(budgets_ms: Sequence[float], note: Callable[[str], None]) -> list[float]:
    """The budgets in rising order; the same one twice is refused."""
    ordered = sorted(budgets_ms)
    twice = [one for one, other in pairwise(ordered) if one == other]
    if twice:
        raise UserError(f"[discretize] budgets_ms names {twice[0]:g} ms twice")
    if ordered != list(budgets_ms):
        note(f"budgets are taken in rising order: {', '.join(f'{budget:g}' for budget in ordered)} ms")
    return ordered


def sweep_budgets(budgets_ms: Sequence[float], select: Callable[[float], Outcome]) -> Sweep:
    """Every budget in turn; one that cannot be kept does not stop the others."""
    outcomes, refusals = [], {}
    for budget_ms in budgets_ms:
        try:
            outcomes.append(select(budget_ms))
        except OverBudget as error:
            refusals[budget_ms] = error
    return Sweep(tuple(outcomes), refusals)


def pick_outcome(sweep: Sweep, wanted_ms: float) -> Outcome:
    """The one to be trained: that of the wanted budget if it was among them, otherwise of the largest that fits."""
    if wanted_ms in sweep.refusals:
        raise sweep.refusals[wanted_ms]
    if not sweep.outcomes:
        raise PromiseBroken("\n".join(str(error) for error in sweep.refusals.values()))
    exact = [outcome for outcome in sweep.outcomes if outcome.demands.budget_ms == wanted_ms]
    return exact[0] if exact else max(sweep.outcomes, key=lambda outcome: outcome.demands.budget_ms)


def folder_of(folder: Path, budget_ms: float) -> Path:
    """Where the files of one of several budgets lie."""
    return folder / f"{budget_ms:g}ms"
