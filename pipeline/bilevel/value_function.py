"""BVFIM: the lower level as a constraint on its value, kept by a barrier (Liu et al., ICML 2021, Prop. 1).

Notation: x = alpha, F = L2 the upper loss, f = L1 the lower one; z = w is the lower solution, y other weights.

    f_mu(x) = min_z f(x, z) + mu1/2 |z|^2 + mu2
    phi(x)  = min_y F(x, y) + theta/2 |y|^2 - tau ln(f_mu(x) - f(x, y))
    dphi/dx = dF/dx(x, y) + tau (df/dx(x, y) - df/dx(x, z)) / (f_mu(x) - f(x, y))

The envelope theorem leaves first derivatives only. Neither convexity nor a unique lower solution is needed: as mu,
theta and tau -> 0 with tau ln mu2 -> 0, minimizers of phi tend to those of the optimistic bilevel problem.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from pipeline.bilevel.backtracking import Descent, evaluate
from pipeline.bilevel.barrier import Barrier, LinearPenalty, LogBarrier
from pipeline.bilevel.errors import BarrierError, require_finite
from pipeline.bilevel.methods import Method, Parts, require_not_negative, require_positive
from pipeline.bilevel.problem import Problem, preserved
from pipeline.bilevel.solvers import Trace
from pipeline.bilevel.vectors import Vector, add, dot, norm, scaled


@dataclass(frozen=True)
class ValueFunction(Method):
    """dphi/dx with y found by `steps` descents of phi, each halved until y stays feasible and phi falls.

    w must be near a lower solution, as for the implicit methods. y starts there, or at `start` (where the call before
    ended, say) if that is feasible. `mu2` bounds how far f may rise on the way: begin with more than the hills between
    y and a better basin, and let it fall with tau from call to call. "adaptive" is the authors' choice, mu2 = f(x, y)
    taken for constant: the gap is then f(x, z) + mu1/2 |z|^2 whatever y does, and the barrier a penalty
    tau / gap * f(x, y), which vanishes with tau: its limit ignores the lower level.
    """

    step: float
    steps: int
    tau: float
    theta: float
    mu1: float
    mu2: float | Literal["adaptive"]
    start: Sequence[Tensor] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        require_positive(step=self.step, steps=self.steps, tau=self.tau)
        require_not_negative(theta=self.theta, mu1=self.mu1)
        if self.mu2 != "adaptive":
            try:
                require_positive(mu2=self.mu2)
            except TypeError:
                raise ValueError(f"mu2 must be a number or 'adaptive', not {self.mu2!r}") from None

    def parts(self, problem: Problem, diagnose: bool) -> Parts:
        if self.start is not None and [y.shape for y in self.start] != [z.shape for z in problem.w]:
            raise ValueError("start must hold one tensor of the same shape for each of w")
        with preserved(problem.w) as w:
            barrier = self._barrier(problem, w)
            descent = Descent(problem, barrier, self.theta, self.step)
            z = descent.origin(w)
            y = (descent.feasible(self.start) if self.start is not None else None) or z
            norms = [norm(y.slope)]
            for _ in range(self.steps):
                y = descent.descend(y)
                norms.append(norm(y.slope))
        moved = add(problem.split(y.lower.gradient).alpha, problem.split(z.lower.gradient).alpha, -1.0)
        return Parts(
            direct=problem.split(y.upper.gradient).alpha,
            indirect=scaled(moved, barrier.slope(y.lower.value)),
            trace=Trace(
                norms=tuple(norms),
                residual=norms[-1] / norms[0] if norms[0] else 0.0,
                gap=barrier.gap(y.lower.value),
                halvings=descent.halvings,
            ),
            end=y.weights,
        )

    def _barrier(self, problem: Problem, w: Vector) -> Barrier:
        """On f_mu(x), from an evaluation of its own: a loss that is not deterministic then shows in the first gap."""
        f_z = require_finite(evaluate(problem, problem.inner, slice(0)).value, "the inner loss")
        level = f_z + self.mu1 / 2 * dot(w, w)
        if self.mu2 == "adaptive":
            if level <= 0.0:
                raise BarrierError(
                    f"mu2='adaptive' divides by f(z) + mu1/2 |z|^2, which is {level:.3g} here; add a constant to the "
                    "inner loss so that it stays above 0, or give mu2 as a number"
                )
            return LinearPenalty(self.tau, level)
        return LogBarrier(self.tau, level + self.mu2)
