"""A race of short trainings: after every heat the better half goes on, for twice as many steps (successive halving)."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol


class Runner(Protocol):
    """A network in training."""

    def loss_after(self, steps: int) -> float:
        """The validation loss after so many training steps in all."""
        ...


class Result(NamedTuple):
    """How far a runner came: the steps it was trained and its last loss; `place` 0 is the winner."""

    steps: int
    loss: float
    place: int


def run_race(
    runners: Sequence[Runner], first_steps: int, report: Callable[[str], None] = lambda _: None
) -> list[Result]:
    """The result of every runner, in the order given. A loss that is not a number loses."""
    steps, heat = [0] * len(runners), first_steps
    losses = [math.inf] * len(runners)
    field = list(range(len(runners)))
    out: list[int] = []
    while len(field) > 1:
        for i in field:
            steps[i] += heat
            loss = runners[i].loss_after(steps[i])
            losses[i] = loss if math.isfinite(loss) else math.inf
            report(f"{len(field)} networks, {heat} steps each, validation loss {loss:.3f}")
        field.sort(key=lambda i: losses[i])
        survivors = (len(field) + 1) // 2
        out = field[survivors:] + out
        field, heat = field[:survivors], 2 * heat
    places = {i: place for place, i in enumerate([*field, *out])}
    return [Result(steps[i], losses[i], places[i]) for i in range(len(runners))]


def count_trainings(runners: int) -> int:
    """How many heats of single runners a race has."""
    return 0 if runners < 2 else runners + count_trainings((runners + 1) // 2)
