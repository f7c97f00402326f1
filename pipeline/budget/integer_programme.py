"""The integer programme of selection, written against the data of a space.

    maximize    sum over kinds, edges e, operations o of score[e, o] · x[e, o]
    such that   sum over o of x[e, o] ≤ 1 on every edge              (at most one operation)
                sum over edges into a node, o, of x[e, o] = keep     (all its edges where keep is None)
                fixed + sum of cost[e, o] · x[e, o] ≤ limit          for every limit
                sum of x over the choices of a cut ≤ at_most         for every cut
                a flow f from the inputs to the output, x_e / |edges| ≤ f_e ≤ x_e, x_e = sum over o ≠ none of x[e, o]

The last line matters only where `none` is a choice. A network whose output ignores its input is no network, and an
operation that hears no input or that nobody hears does nothing: it would add its score to the sum for nothing. One path
of 1 / |edges| through every open edge is such a flow, and an edge off all paths has none.
Among equal scores the cheapest network wins, by a second programme on the optimal face of the first.
"""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, OptimizeResult, milp
from scipy.sparse import csr_array

from pipeline.budget.limits import Limit
from pipeline.errors import PromiseBroken
from pipeline.space.cells import CellKind, Space
from pipeline.space.choices import Choices, choices_cost, effective_choices
from pipeline.space.costs import Costs
from pipeline.space.plan import Choice

Values = NDArray[np.float64]
Scores = dict[str, Values]

_TIME_LIMIT_S = 30.0
# HiGHS works to 1e-6 absolute: scores are stretched to this spread, costs to fractions of their limit.
_SPREAD = 100.0
_TOLERANCE = 1e-6
_STOPPED = 1  # scipy's status for a time or iteration limit; an incumbent may be there


class Cut(NamedTuple):
    """At most `at_most` of these choices together."""

    choices: Choices
    at_most: int


class Solution(NamedTuple):
    """A network, its score, by how much a better one could at most exceed it, and what it took to solve."""

    choices: Choices
    score: float
    gap: float
    seconds: float


class Row(NamedTuple):
    """low ≤ Σ weight · variable ≤ high."""

    weights: dict[int, float]
    low: float
    high: float


class Programme:
    """The variables and structure of a space, ready to be solved under limits and cuts."""

    def __init__(self, space: Space, scores: Scores) -> None:
        self.space = space
        self.choices = [
            Choice(kind.name, edge, operation)
            for kind in space.kinds
            for edge in range(len(kind.edges))
            for index, operation in enumerate(kind.operations)
            if operation in kind.choosable and np.isfinite(scores[kind.name][edge, index])
        ]
        self._index = {choice: i for i, choice in enumerate(self.choices)}
        self._scores = self._values(Costs(0.0, scores))
        self._structure = [row for kind in space.kinds for row in self._kind_rows(kind)]
        self._flows = 0
        for kind in space.kinds:
            if kind.none_is_choice:
                self._structure += self._flow_rows(kind)

    def best(
        self, limits: Sequence[Limit] = (), cuts: Sequence[Cut] = (), ties: Costs | None = None
    ) -> Solution | None:
        """The highest score within limits and cuts, among equals the smallest `ties`; None when nothing is feasible."""
        started = time.perf_counter()
        spread = np.ptp(self._scores) or 1.0
        stretched = self._scores * (_SPREAD / spread)
        excess: list[Cut] = []
        while True:
            rows = self._rows(limits, [*cuts, *excess])
            found = self._solve(-stretched, rows)
            if found.x is None:
                return None
            bound = -float(found.mip_dual_bound) * spread / _SPREAD
            chosen = self._chosen(found.x)
            if ties is not None:
                reached = float(sum(stretched[self._index[c]] for c in chosen))
                face = Row(dict(enumerate(stretched)), reached - _TOLERANCE, np.inf)
                cheapest = self._solve(_stretch(self._values(ties)), [*rows, face])
                chosen = chosen if cheapest.x is None else self._chosen(cheapest.x)
            # The solver allows a limit to be missed by a millionth: exact sums decide.
            if all(limit.allows(choices_cost(self.space, limit.costs, chosen)) for limit in limits):
                score = float(sum(self._scores[self._index[c]] for c in chosen))
                return Solution(chosen, score, max(0.0, bound - score), time.perf_counter() - started)
            excess.append(Cut(chosen, len(chosen) - 1))

    def cheapest(self, costs: Costs, limits: Sequence[Limit] = ()) -> Choices | None:
        """The network with the smallest cost within the limits."""
        found = self._solve(_stretch(self._values(costs)), self._rows(limits, []))
        return None if found.x is None else self._chosen(found.x)

    def _values(self, costs: Costs) -> Values:
        operations = {kind.name: kind.operations for kind in self.space.kinds}
        return np.array([costs.choices[c.kind][c.edge, operations[c.kind].index(c.operation)] for c in self.choices])

    def _kind_rows(self, kind: CellKind) -> list[Row]:
        rows = []
        for node in range(kind.nodes):
            incoming = kind.edges_into(node)
            keep = len(incoming) if kind.keep is None else kind.keep
            rows += [Row(self._ones(kind, (edge,)), 0, 1) for edge in incoming]
            rows.append(Row(self._ones(kind, incoming), keep, keep))
        return rows

    def _ones(self, kind: CellKind, edges: Sequence[int], without: str | None = None) -> dict[int, float]:
        return {
            i: 1.0
            for i, c in enumerate(self.choices)
            if c.kind == kind.name and c.edge in edges and c.operation != without
        }

    def _flow_rows(self, kind: CellKind) -> list[Row]:
        first, size = len(self.choices) + self._flows, len(kind.edges)
        self._flows += size
        least = 1.0 / size
        rows = []
        for edge in range(size):
            is_open, flow = self._ones(kind, (edge,), "none"), {first + edge: 1.0}
            rows.append(Row(flow | dict.fromkeys(is_open, -1.0), -np.inf, 0))
            rows.append(Row(flow | dict.fromkeys(is_open, -least), 0, np.inf))
        sinks = {kind.nodes - 1} if kind.output == "last" else set(range(kind.nodes))
        for node in range(kind.nodes):
            into = {first + edge: 1.0 for edge in kind.edges_into(node)}
            out = {first + i: -1.0 for i, edge in enumerate(kind.edges) if edge.source == kind.inputs + node}
            rows.append(Row(into | out, 0, np.inf if node in sinks else 0))
        from_inputs = {first + i: 1.0 for i, edge in enumerate(kind.edges) if edge.source < kind.inputs}
        return [*rows, Row(from_inputs, least, np.inf)]

    def _rows(self, limits: Sequence[Limit], cuts: Sequence[Cut]) -> list[Row]:
        rows = list(self._structure)
        for limit in limits:
            scale = max(abs(limit.at_most), 1e-12)
            values = self._values(limit.costs) / scale
            rows.append(Row(dict(enumerate(values)), -np.inf, (limit.at_most - limit.costs.fixed) / scale))
        for cut in cuts:
            known = [self._index[c] for c in cut.choices if c in self._index]
            rows.append(Row(dict.fromkeys(known, 1.0), -np.inf, cut.at_most))
        return rows

    def _solve(self, objective: Values, rows: Sequence[Row]) -> OptimizeResult:
        variables = len(self.choices) + self._flows
        entries = [(r, i, w) for r, row in enumerate(rows) for i, w in row.weights.items()]
        places, weights = [(r, i) for r, i, _ in entries], [w for *_, w in entries]
        matrix = csr_array((weights, tuple(zip(*places, strict=True))), shape=(len(rows), variables))
        with _silenced_stdout():
            result = milp(
                np.concatenate([objective, np.zeros(self._flows)]),
                integrality=np.repeat([1, 0], [len(self.choices), self._flows]),
                bounds=Bounds(0, 1),
                constraints=LinearConstraint(matrix, [row.low for row in rows], [row.high for row in rows]),
                options={"mip_rel_gap": 0.0, "time_limit": _TIME_LIMIT_S},
            )
        if result.x is None and result.status == _STOPPED:
            raise PromiseBroken(f"no network within the limits was found in {_TIME_LIMIT_S:g} s; loosen a limit")
        return result

    def _chosen(self, x: Values) -> Choices:
        return frozenset(choice for choice, value in zip(self.choices, x, strict=False) if value > 0.5)


@contextmanager
def _silenced_stdout() -> Iterator[None]:
    """HiGHS now and then prints a line of its own to file descriptor 1, which belongs to results."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        with open(os.devnull, "w") as nowhere:  # noqa: PTH123 (a device, not a file)
            os.dup2(nowhere.fileno(), 1)
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _stretch(values: Values) -> Values:
    return values * (_SPREAD / (float(np.abs(values).max()) or 1.0))


def even_scores(space: Space) -> Scores:
    """The same score for every choice: for questions in which only costs matter."""
    return {kind.name: np.zeros((len(kind.edges), len(kind.operations))) for kind in space.kinds}


def best_candidates(
    programme: Programme,
    limits: Sequence[Limit],
    count: int,
    difference: int,
    ties: Costs | None = None,
    known: Sequence[Solution] = (),
) -> Iterator[Solution]:
    """Up to `count` solutions in falling score, each unlike all `known` and earlier ones in `difference` choices.

    Only choices that have an effect at the output count, so that a copy with another idle edge is no candidate.
    """
    cuts = [_apart(programme, solution, difference) for solution in known]
    for _ in range(count):
        solution = programme.best(limits, cuts, ties)
        if solution is None:
            return
        yield solution
        cuts.append(_apart(programme, solution, difference))


def _apart(programme: Programme, solution: Solution, difference: int) -> Cut:
    effective = effective_choices(programme.space, solution.choices)
    return Cut(effective, max(len(effective) - difference, 0))
