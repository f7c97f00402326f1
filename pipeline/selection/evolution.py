"""Climbing to a network that is worth more than the sum of its choices.

An integer programme finds the best sum. What a network is worth as a whole can only be asked of it, one network at a
time: so the best are changed in one choice again and again, and those that fit are asked (elitist evolution).
"""

from bisect import insort
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice

import numpy as np

from pipeline.space.cells import CellKind, Space
from pipeline.space.choices import Choices
from pipeline.space.plan import Choice

Fits = Callable[[Choices], bool]

_ELITE = 8
_PATIENCE = 0.25  # share of the asks without a new best after which a climb is over
_TRIES = 100  # draws in a row that are known or do not fit, after which nothing new is expected


class Climber:
    """Climbs under one limit after the other; what a network is worth does not depend on them and is asked once."""

    def __init__(
        self,
        space: Space,
        worth: Callable[[Choices], float],
        asks: int,
        seed: int,
        watched: Callable[[Iterator[Choices], int], Iterator[Choices]] = lambda asked, at_most: asked,
    ) -> None:
        self._space, self._ask, self.asks, self._seed, self._watched = space, worth, asks, seed, watched
        self._known: dict[Choices, float] = {}

    def worth(self, choices: Choices) -> float:
        """What a network is worth."""
        if choices not in self._known:
            self._known[choices] = self._ask(choices)
        return self._known[choices]

    def climb(self, starts: Sequence[Choices], fits: Fits, asks: int | None = None) -> list[Choices]:
        """Networks that fit, the most worthy first. At most `asks` new ones are asked, fewer if none gets better."""
        asks = self.asks if asks is None else asks
        field = sorted((choices for choices in self._known if fits(choices)), key=self._rank)
        new = [choices for choices in dict.fromkeys(starts) if choices not in self._known and fits(choices)]
        since_best = 0
        for choices in self._watched(islice(chain(new, self._changes(field, fits)), asks), asks):
            self.worth(choices)
            insort(field, choices, key=self._rank)
            since_best = 0 if field[0] == choices else since_best + 1
            if since_best > _PATIENCE * asks:
                break
        return field

    def _rank(self, choices: Choices) -> float:
        return -self._known[choices]

    def _changes(self, field: Sequence[Choices], fits: Fits) -> Iterator[Choices]:
        """New networks that fit, each one change away from one of the best that the field holds by then."""
        generator, tries = np.random.default_rng(self._seed), 0
        while field and tries < _TRIES:
            parent = field[int(generator.integers(min(_ELITE, len(field))))]
            changed = list(neighbours(self._space, parent))
            choices = changed[int(generator.integers(len(changed)))]
            tries += 1
            if choices not in self._known and fits(choices):
                tries = 0
                yield choices


def neighbours(space: Space, choices: Choices) -> Iterator[Choices]:
    """Every network that differs in one choice: another operation, or another input of the same node."""
    for kind in space.kinds:
        for choice in sorted(c for c in choices if c.kind == kind.name):
            for instead in _alternatives(kind, choice, choices):
                yield choices - {choice} | {instead}


def _alternatives(kind: CellKind, choice: Choice, choices: Choices) -> Iterator[Choice]:
    for operation in kind.choosable:
        if operation != choice.operation:
            yield Choice(kind.name, choice.edge, operation)
    taken = {c.edge for c in choices if c.kind == kind.name}
    for edge in kind.edges_into(kind.edges[choice.edge].node):
        if edge not in taken:
            yield Choice(kind.name, edge, choice.operation)
