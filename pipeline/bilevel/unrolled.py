"""The rows of iDARTS' Table 4 that differentiate through steps of gradient descent on the weights.

Notation: w_t = w_{t-1} - gamma dL1/dw(w_{t-1}, alpha), A_t = dw_t/dw_{t-1} = I - gamma H(w_{t-1}),
B_t = dw_t/dalpha = -gamma M(w_{t-1}), V_T = dL2/dw(w_T, alpha), V_{t-1} = A_t V_t (H is symmetric).
The hypergradient is dL2/dalpha(w_T, alpha) + sum_t B_t V_t, the reverse of Z_t = A_t Z_{t-1} + B_t.

The weights w_t are kept and each step is differentiated on its own, so memory grows by one set of weights per step and
not by one graph.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pipeline.bilevel.errors import require_finite
from pipeline.bilevel.methods import Method, Parts, require_positive
from pipeline.bilevel.problem import Problem, preserved
from pipeline.bilevel.products import Difference, ProductKind, make_products, require_product_settings
from pipeline.bilevel.solvers import Trace
from pipeline.bilevel.vectors import Vector, add, copies, norm, zeros_like


@dataclass(frozen=True)
class TruncatedReverse(Method):
    """Back-propagation through the last `last` of `steps` steps from w (eq. 5, Shaban et al.), so t = T-last+1 ... T.

    With w stationary it is the Neumann sum of last - 1 terms (Corollary 2). `products`, `step` and `difference` are
    those of `Neumann`.
    """

    gamma: float
    steps: int
    last: int
    products: ProductKind = "exact"
    step: float = 1e-2
    difference: Difference = "one_sided"

    def __post_init__(self) -> None:
        require_positive(gamma=self.gamma, steps=self.steps, last=self.last, step=self.step)
        require_product_settings(self.products, self.difference)
        if self.last > self.steps:
            raise ValueError(f"last must be at most steps={self.steps}, not {self.last}")

    def parts(self, problem: Problem, diagnose: bool) -> Parts:
        with preserved(problem.w):
            trajectory = descend(problem, self.gamma, self.steps, keep=self.last)
            end = copies(problem.w)
            v, direct = problem.split(problem.reduce(problem.gradient(problem.outer, problem.BOTH)))
            return replace(self._ascend(problem, trajectory, v, direct), end=end)

    def _ascend(self, problem: Problem, trajectory: Sequence[Vector], v: Vector, direct: Vector) -> Parts:
        """sum_t B_t V_t along the trajectory, from its end."""
        indirect = zeros_like(direct)
        norms = [require_finite(norm(v), "the gradient of the outer loss")]
        for t in reversed(range(len(trajectory))):
            problem.load(trajectory[t])
            products = make_products(problem, self.products, self.step, self.difference)
            if t > 0:
                hessian, mixed = products.both(v)
                v = add(v, hessian, -self.gamma)
                norms.append(require_finite(norm(v), "a Hessian product"))
            else:
                mixed = products.mixed(v)
            indirect = add(indirect, mixed, -self.gamma)
        return Parts(direct, indirect, Trace(norms=tuple(norms)))


@dataclass(frozen=True)
class ReverseMode(Method):
    """Back-propagation through all `steps` steps from w (eq. 4); one step is eq. 16 of the constrained formulas.

    One step with central finite differences is DARTS: both parts of the outer gradient at w' = w - gamma dL1/dw, the
    mixed term by (dL1/dalpha(w + e V) - dL1/dalpha(w - e V)) / 2e.
    """

    gamma: float
    steps: int
    products: ProductKind = "exact"
    step: float = 1e-2
    difference: Difference = "one_sided"

    def __post_init__(self) -> None:
        self._truncated()

    def parts(self, problem: Problem, diagnose: bool) -> Parts:
        return self._truncated().parts(problem, diagnose)

    def _truncated(self) -> TruncatedReverse:
        return TruncatedReverse(self.gamma, self.steps, self.steps, self.products, self.step, self.difference)


def descend(problem: Problem, gamma: float, steps: int, keep: int) -> Sequence[Vector]:
    """Take the steps in place; the last `keep` of w_0 ... w_{T-1}."""
    trajectory: deque[Vector] = deque(maxlen=keep)
    for _ in range(steps):
        trajectory.append(copies(problem.w))
        gradient = problem.reduce(problem.gradient(problem.inner, problem.W))
        problem.load(add(trajectory[-1], gradient, -gamma))
    return trajectory
