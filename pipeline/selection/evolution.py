"""Elitist evolution towards the network with the highest score as a whole.

An integer programme finds the best sum over choices. A score that is no such sum can only be evaluated, one network
at a time: so the best are changed in one choice again and again, and those that fit are evaluated.
"""

from bisect import insort
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice, takewhile

import numpy as np

from pipeline.space.cells import CellKind, Space
from pipeline.space.choices import Choices, hears_input
from pipeline.space.plan import Choice

Fits = Callable[[Choices], bool]

_ELITE = 8
_PATIENCE = 0.25  # share of the evaluations without a new best after which an evolution is over
_TRIES = 100  # draws in a row that are known or do not fit, after which nothing new is expected


class Evolution:
    """Evolves under one limit after the other; scores do not depend on them and are evaluated once."""

    def __init__(
        self,
        space: Space,
        evaluate: Callable[[Choices], float],
        evaluations: int,
        seed: int,
        watched: Callable[[Iterator[Choices], int], Iterator[Choices]] = lambda evaluated, at_most: evaluated,
    ) -> None:
        self._space, self._evaluate, self._seed, self._watched = space, evaluate, seed, watched
        self.evaluations = evaluations
        self._known: dict[Choices, float] = {}

    def score(self, choices: Choices) -> float:
        """The score of a network."""
        if choices not in self._known:
            self._known[choices] = self._evaluate(choices)
        return self._known[choices]

    def evolve(self, starts: Sequence[Choices], fits: Fits, evaluations: int | None = None) -> list[Choices]:
        """Networks that fit, the highest score first.

        At most `evaluations` new ones are evaluated, fewer if none gets better.
        """
        at_most = self.evaluations if evaluations is None else evaluations
        population = sorted((choices for choices in self._known if fits(choices)), key=self._rank)
        new = [choices for choices in dict.fromkeys(starts) if choices not in self._known and fits(choices)]
        since_best = 0
        offered = islice(chain(new, self._mutants(population, fits)), at_most)
        # ends by itself, for whoever watches, and is not broken off
        evaluated = takewhile(lambda _: since_best <= _PATIENCE * at_most, offered)
        for choices in self._watched(evaluated, at_most):
            self.score(choices)
            insort(population, choices, key=self._rank)
            since_best = 0 if population[0] == choices else since_best + 1
        return population

    def _rank(self, choices: Choices) -> float:
        return -self._known[choices]

    def _mutants(self, population: Sequence[Choices], fits: Fits) -> Iterator[Choices]:
        """New networks that fit, each one change away from one of the best that the population holds by then."""
        generator, tries = np.random.default_rng(self._seed), 0
        while population and tries < _TRIES:
            parent = population[int(generator.integers(min(_ELITE, len(population))))]
            changed = list(neighbours(self._space, parent))
            choices = changed[int(generator.integers(len(changed)))]
            tries += 1
            if choices not in self._known and fits(choices):
                tries = 0
                yield choices


def neighbours(space: Space, choices: Choices) -> Iterator[Choices]:
    """Every network that differs in one choice: another operation, or another input of the same node.

    What ignores its input is no network, and no score can tell: a search never judged one.
    """
    for kind in space.kinds:
        for choice in sorted(c for c in choices if c.kind == kind.name):
            for instead in _alternatives(kind, choice, choices):
                changed = choices - {choice} | {instead}
                if hears_input(space, changed):
                    yield changed


def _alternatives(kind: CellKind, choice: Choice, choices: Choices) -> Iterator[Choice]:
    for operation in kind.choosable:
        if operation != choice.operation:
            yield Choice(kind.name, choice.edge, operation)
    taken = {c.edge for c in choices if c.kind == kind.name}
    for edge in kind.edges_into(kind.edges[choice.edge].node):
        if edge not in taken:
            yield Choice(kind.name, edge, choice.operation)
