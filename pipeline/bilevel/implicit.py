"""The rows of iDARTS' Table 4 that take second derivatives at the caller's own weights.

Notation: L1 inner loss, L2 outer loss, H = d2L1/dw dw, M = d2L1/dalpha dw, V_0 = dL2/dw. Every method here returns
dL2/dalpha - M x; they differ in x only, an approximation of H^-1 V_0.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

from pipeline.bilevel.errors import require_finite
from pipeline.bilevel.methods import Method, Parts, require_not_negative, require_positive
from pipeline.bilevel.problem import Problem
from pipeline.bilevel.products import (
    Difference,
    ExactProducts,
    ProductKind,
    Products,
    make_products,
    require_product_settings,
)
from pipeline.bilevel.solvers import Solution, Trace, conjugate_gradient, dense_solve, neumann
from pipeline.bilevel.vectors import Vector, norm, scaled


class ImplicitMethod(Method):
    """dL2/dalpha - M x, all at w."""

    def parts(self, problem: Problem, diagnose: bool) -> Parts:
        v, direct = problem.split(problem.reduce(problem.gradient(problem.outer, problem.BOTH)))
        require_finite(norm(v), "the gradient of the outer loss")
        products = self.second_derivatives(problem)
        solution = self.solve(products, v, diagnose)
        return Parts(
            direct=direct,
            indirect=scaled(solution.value, -1.0),
            trace=solution.trace,
            inner_gradient=products.inner_gradient(),
        )

    def second_derivatives(self, problem: Problem) -> Products:
        """Where H v and M v come from."""
        return ExactProducts(problem)

    @abstractmethod
    def solve(self, products: Products, v: Vector, diagnose: bool) -> Solution:
        """M x"""


@dataclass(frozen=True)
class ExactInverse(ImplicitMethod):
    """x = H^-1 V_0 by a dense solve (eq. 6): the truth at a stationary point of L1, for small problems."""

    def solve(self, products: Products, v: Vector, diagnose: bool) -> Solution:
        return dense_solve(products.hessian, v).multiplied(products.mixed)


@dataclass(frozen=True)
class OneStepUnroll(ImplicitMethod):
    """x = gamma V_0: one gradient step on the weights, evaluated before the step (eq. 3)."""

    gamma: float

    def __post_init__(self) -> None:
        require_positive(gamma=self.gamma)

    def solve(self, products: Products, v: Vector, diagnose: bool) -> Solution:
        return Solution(scaled(v, self.gamma), Trace((norm(v),))).multiplied(products.mixed)


@dataclass(frozen=True)
class T1T2(ImplicitMethod):
    """x = V_0: the identity in place of the inverse (Luketina et al. in Table 4)."""

    def solve(self, products: Products, v: Vector, diagnose: bool) -> Solution:
        return Solution(v, Trace((norm(v),))).multiplied(products.mixed)


@dataclass(frozen=True)
class Neumann(ImplicitMethod):
    """x = gamma * sum_{k=0..terms} (I - gamma H)^k V_0 (eq. 8 and Appendix B).

    `finite_difference` takes one perturbed gradient per term (two if central), with ||epsilon V_k|| = step, 0.01 as in
    DARTS; `step` and `difference` mean nothing to other products. `gauss_newton` has G in place of H and wants the
    inner loss as a `Composition`: no negative curvature, so with gamma lambda_max < 2 the residual never exceeds 1.
    """

    gamma: float
    terms: int
    products: ProductKind = "exact"
    step: float = 1e-2
    difference: Difference = "one_sided"

    def __post_init__(self) -> None:
        require_positive(gamma=self.gamma, step=self.step)
        require_not_negative(terms=self.terms)
        require_product_settings(self.products, self.difference)

    def second_derivatives(self, problem: Problem) -> Products:
        return make_products(problem, self.products, self.step, self.difference)

    def solve(self, products: Products, v: Vector, diagnose: bool) -> Solution:
        return neumann(products, v, self.gamma, self.terms, with_residual=diagnose)


@dataclass(frozen=True)
class ConjugateGradient(ImplicitMethod):
    """x = (H + damping I)^-1 V_0 by at most `steps` steps of conjugate gradient (Rajeswaran et al. in Table 4).

    With `gauss_newton` products, G in place of H, it meets no negative curvature.
    """

    steps: int
    rtol: float = 1e-5
    damping: float = 0.0
    products: Literal["exact", "gauss_newton"] = "exact"

    def __post_init__(self) -> None:
        require_positive(steps=self.steps)
        require_not_negative(rtol=self.rtol, damping=self.damping)
        if self.products not in ("exact", "gauss_newton"):
            raise ValueError(f"products must be 'exact' or 'gauss_newton', not {self.products!r}")

    def second_derivatives(self, problem: Problem) -> Products:
        return make_products(problem, self.products)

    def solve(self, products: Products, v: Vector, diagnose: bool) -> Solution:
        solution = conjugate_gradient(products.hessian, v, self.steps, self.rtol, self.damping)
        return solution.multiplied(products.mixed)
