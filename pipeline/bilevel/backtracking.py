"""Descent on phi(y) = F + theta/2 |y|^2 + barrier(f) that stays inside the barrier.

Notation as in `value_function`: F is the outer loss, f the inner one, y the weights that move.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from pipeline.bilevel.barrier import Barrier
from pipeline.bilevel.errors import BarrierError, require_finite
from pipeline.bilevel.problem import Loss, Problem
from pipeline.bilevel.vectors import Vector, add, copies, dot, machine_epsilon, norm

SMALLEST_SHARE = 0.1  # of the gap that a step must leave: y nears the boundary in many steps, never in one
MOST_HALVINGS = 30
ROUNDING = 10.0  # units of roundoff within which two losses count as one


@dataclass(frozen=True)
class Evaluation:
    """A loss and its gradient, both averaged over ranks: comparisons of the value come out alike on all of them."""

    value: float
    gradient: Vector


def evaluate(problem: Problem, loss: Loss, part: slice) -> Evaluation:
    """The loss and dloss/dtensors[part] at the present weights, in one message between ranks."""
    own = problem.value_and_gradient(loss, part)
    value, *gradient = problem.reduce([own.value, *own.gradient])
    return Evaluation(float(value), gradient)


@dataclass(frozen=True)
class Point:
    """y, with both losses and phi there; `slope` is dphi/dy."""

    weights: Vector
    lower: Evaluation
    upper: Evaluation
    phi: float
    slope: Vector


class Descent:
    """Backtracking gradient descent on phi(y) = F + theta/2 |y|^2 + barrier(f), in the tensors of problem.w.

    A trial takes its gradients at once, as most are accepted: a step costs one gradient of each loss, a halving alike.
    """

    def __init__(self, problem: Problem, barrier: Barrier, theta: float, step: float) -> None:
        self.problem, self.barrier, self.theta, self.step = problem, barrier, theta, step
        self.length, self.halvings = step, 0

    def origin(self, w: Vector) -> Point:
        """y = w, which is feasible unless f differs between two calls by all of mu1/2 |w|^2 + mu2."""
        lower = evaluate(self.problem, self.problem.inner, self.problem.BOTH)
        gap = self.barrier.gap(require_finite(lower.value, "the inner loss"))
        if gap <= ROUNDING * machine_epsilon(w) * abs(lower.value):
            raise BarrierError(
                f"y = w is not inside the barrier (gap {gap:.3g} at an inner loss of {lower.value:.6g}): either the "
                "inner loss gives two values at one point (fix its batch, dropout and noise), or mu2 is lost in its "
                "rounding (use a larger one)"
            )
        point = self._point(w, lower)
        require_finite(point.phi + norm(point.slope), "the gradient of the outer loss")
        return point

    def feasible(self, weights: Sequence[Tensor]) -> Point | None:
        """The point, unless it is outside the barrier."""
        return self._trial(copies(weights), 0.0)

    def descend(self, y: Point) -> Point:
        """y - s dphi/dy for the first s = step, step/2, ... that leaves a tenth of the gap and lets phi fall."""
        gap, squared = self.barrier.gap(y.lower.value), dot(y.slope, y.slope)
        noise = ROUNDING * machine_epsilon(y.weights) * (abs(y.upper.value) + abs(y.phi))
        self.length = min(self.step, 2.0 * self.length)
        for _ in range(MOST_HALVINGS + 1):
            trial = self._trial(add(y.weights, y.slope, -self.length), SMALLEST_SHARE * gap)
            # where a step promises less than rounding, phi cannot be seen to fall and need only stay
            stays = self.length * squared <= noise and trial is not None and trial.phi <= y.phi + noise
            if trial is not None and (stays or -math.inf < trial.phi < y.phi):
                return trial
            self.length /= 2.0
            self.halvings += 1
        raise BarrierError(
            f"no step from {self.step:g} down to {self.length:.3g} lets phi fall inside a gap of {gap:.3g}; "
            "use a smaller step or a larger mu2, and look for noise or kinks in the losses"
        )

    def _trial(self, weights: Vector, least_gap: float) -> Point | None:
        """The point, or None where f leaves too little gap (or is not finite)."""
        self.problem.load(weights)
        lower = evaluate(self.problem, self.problem.inner, self.problem.BOTH)
        return self._point(weights, lower) if least_gap < self.barrier.gap(lower.value) < math.inf else None

    def _point(self, weights: Vector, lower: Evaluation) -> Point:
        upper = evaluate(self.problem, self.problem.outer, self.problem.BOTH)
        part, barrier, theta = self.problem.W, self.barrier, self.theta
        slope = add(upper.gradient[part], lower.gradient[part], barrier.slope(lower.value))
        phi = upper.value + theta / 2 * dot(weights, weights) + barrier.value(lower.value)
        return Point(weights, lower, upper, phi, add(slope, weights, theta))
