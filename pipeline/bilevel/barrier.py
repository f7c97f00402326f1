"""What holds f(x, y) below the lower level's value: a true barrier, and the penalty that the authors' form is."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass


@dataclass(frozen=True)
class Barrier(ABC):
    """A term b(f) of phi; `level` is what f is held against."""

    tau: float
    level: float

    @abstractmethod
    def gap(self, f: float) -> float:
        """What the logarithm is taken of; y is feasible while it is above 0."""

    @abstractmethod
    def value(self, f: float) -> float:
        """b(f)"""

    def slope(self, f: float) -> float:
        """db/df = tau / gap"""
        return self.tau / self.gap(f)


class LogBarrier(Barrier):
    """b = -tau ln(level - f) with level = f_mu: infinite at the boundary."""

    def gap(self, f: float) -> float:
        return self.level - f

    def value(self, f: float) -> float:
        return -self.tau * math.log(self.gap(f))


class LinearPenalty(Barrier):
    """b = tau / level * f with level = f(z) + mu1/2 |z|^2: what is left of the logarithm once mu2 follows f(y)."""

    def gap(self, f: float) -> float:
        return self.level if math.isfinite(f) else -math.inf

    def value(self, f: float) -> float:
        return self.slope(f) * f
