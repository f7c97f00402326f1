"""What every way to compute a hypergradient has in common, and the simplest one.

Notation: L2 is the outer loss; the hypergradient is its direct part dL2/dalpha plus an indirect part, the effect of
alpha on L2 through the weights.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from pipeline.bilevel.problem import Problem
from pipeline.bilevel.solvers import Trace
from pipeline.bilevel.vectors import Vector, zeros_like


@dataclass(frozen=True)
class Parts:
    """The two parts of a hypergradient and what was learnt on the way.

    `inner_gradient` is dL1/dw at w, if it was needed; `end` the weights that L2 was taken at, where they are not w.
    """

    direct: Vector
    indirect: Vector
    trace: Trace
    inner_gradient: Vector | None = None
    end: Vector | None = None


class Method(ABC):
    """A way to compute the hypergradient."""

    @abstractmethod
    def parts(self, problem: Problem, diagnose: bool) -> Parts:
        """Both parts; `diagnose` asks for the diagnostics that cost more than reading them off."""


@dataclass(frozen=True)
class DirectOnly(Method):
    """dL2/dalpha: the weights are taken for constant (first-order DARTS)."""

    def parts(self, problem: Problem, diagnose: bool) -> Parts:
        direct = problem.reduce(problem.gradient(problem.outer, problem.ALPHA))
        return Parts(direct, zeros_like(direct), Trace())


def require_positive(**values: float) -> None:
    """ValueError unless every named value is above zero."""
    for name, value in values.items():
        if not value > 0:
            raise ValueError(f"{name} must be above 0, not {value}")


def require_not_negative(**values: float) -> None:
    """ValueError if a named value is below zero."""
    for name, value in values.items():
        if not value >= 0:
            raise ValueError(f"{name} must not be below 0, not {value}")
