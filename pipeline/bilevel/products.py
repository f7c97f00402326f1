"""Products with the second derivatives of the inner loss L1.

Notation: H = d2L1/dw dw, M = d2L1/dalpha dw, v a vector in the space of w; M v lies in the space of alpha.
All of them are the derivative of one gradient: d/de grad L1(w + e v, alpha) at e = 0 is (H v, M v).
"""

from abc import ABC, abstractmethod
from typing import Literal, get_args

import torch

from pipeline.bilevel.differentiation import TwiceDifferentiable
from pipeline.bilevel.errors import StepTooSmallError
from pipeline.bilevel.problem import Composition, Pair, Problem, differentiate, preserved
from pipeline.bilevel.vectors import Vector, add, norm, zeros_like

Difference = Literal["one_sided", "central"]
ProductKind = Literal["exact", "finite_difference", "gauss_newton"]

LARGEST_ROUNDING = 0.5  # of a step, before it counts as lost in the weights


class Products(ABC):
    """H v and M v at the present weights, averaged over ranks by the problem's `reduce`."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    @abstractmethod
    def derivative(self, v: Vector, part: slice) -> Vector:
        """d/de dL1(w + e v, alpha)/dtensors[part] at e = 0, of this rank."""

    @abstractmethod
    def inner_gradient(self) -> Vector | None:
        """dL1/dw at w of this rank, if it was needed."""

    def hessian(self, v: Vector) -> Vector:
        """H v"""
        return self.problem.reduce(self.derivative(v, self.problem.W))

    def mixed(self, v: Vector) -> Vector:
        """M v"""
        return self.problem.reduce(self.derivative(v, self.problem.ALPHA))

    def both(self, v: Vector) -> Pair:
        """H v and M v from one derivative."""
        return self.problem.split(self.problem.reduce(self.derivative(v, self.problem.BOTH)))


class ExactProducts(Products):
    """Double backward through one inner graph, which serves every product."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        with TwiceDifferentiable():
            self.gradient = problem.gradient(problem.inner, problem.W, create_graph=True)

    def inner_gradient(self) -> Vector:
        return [g.detach() for g in self.gradient]

    def derivative(self, v: Vector, part: slice) -> Vector:
        """d(v . dL1/dw)/dtensors[part]"""
        return differentiate(self.gradient, self.problem.tensors[part], v, retain_graph=True)


class FiniteDifferenceProducts(Products):
    """Differences of gradients along v, with ||e v|| = step whatever the norm of v.

    One-sided: (grad L1(w + e v) - grad L1(w)) / e, one gradient per product after the first; error O(e).
    Central: (grad L1(w + e v) - grad L1(w - e v)) / 2e, two gradients per product; error O(e^2).
    """

    def __init__(self, problem: Problem, step: float, difference: Difference) -> None:
        super().__init__(problem)
        self.step = step
        self.base = problem.gradient(problem.inner, problem.BOTH) if difference == "one_sided" else None

    def inner_gradient(self) -> Vector | None:
        return None if self.base is None else self.base[self.problem.W]

    def derivative(self, v: Vector, part: slice) -> Vector:
        size = norm(v)
        if size == 0.0:
            return zeros_like(self.problem.tensors[part])
        epsilon = self.step / size
        ahead = self._gradient_at(epsilon, v, part)
        if self.base is not None:
            behind, width = self.base[part], epsilon
        else:
            behind, width = self._gradient_at(-epsilon, v, part), 2.0 * epsilon
        return [(a - b).div_(width) for a, b in zip(ahead, behind, strict=True)]

    def _gradient_at(self, epsilon: float, v: Vector, part: slice) -> Vector:
        """grad L1(w + epsilon v, alpha)"""
        problem = self.problem
        with preserved(problem.w) as w:
            problem.load(add(w, v, epsilon))
            lost = norm([p.detach() - x - epsilon * y for p, x, y in zip(problem.w, w, v, strict=True)])
            if lost > LARGEST_ROUNDING * self.step:
                raise StepTooSmallError(f"a step of norm {self.step:g} is lost in the rounding of w; use a larger one")
            return problem.gradient(problem.inner, part)


class GaussNewtonProducts(Products):
    """G = J^T phi'' J in place of H, for L1 = phi(z(w, alpha), alpha): positive semidefinite where phi is convex.

    J = dz/dw. G is H without the curvature of z, and H itself where z is linear in w. For cross entropy over logits
    phi'' = (diag p - p p^T) / images, so G is the Fisher information of the predicted labels, and a weight decay adds
    itself, as the weights are outputs too. M stays exact. With g = phi'(z, alpha), taken for constant in J^T g,

        J v = d(v . J^T g)/dg
        G v = d(J v . phi'(z, alpha))/dw
        M v = d(J v . phi'(z, alpha))/dalpha + d(v . J^T g)/dalpha
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        inner = problem.inner
        if not isinstance(inner, Composition):
            raise ValueError("Gauss-Newton products need the inner loss as a Composition")
        with TwiceDifferentiable(), preserved(problem.buffers), torch.enable_grad():
            # views, so that weights among the outputs are told from the weights that other outputs depend on
            outputs = [z.view_as(z) for z in inner.outputs(problem.w, problem.alpha)]
            self.slopes = differentiate([inner.convex(outputs, problem.alpha)], outputs, create_graph=True)
            self.held = [slope.detach().requires_grad_() for slope in self.slopes]
            self.gradient = differentiate(outputs, problem.w, self.held, create_graph=True)

    def inner_gradient(self) -> Vector:
        return [g.detach() for g in self.gradient]

    def derivative(self, v: Vector, part: slice) -> Vector:
        tensors, first_alpha = self.problem.tensors, len(self.problem.w)
        alphas = [tensors[i] for i in range(len(tensors))[part] if i >= first_alpha]
        joint = differentiate(self.gradient, [*self.held, *alphas], v, retain_graph=True)
        along, explicit = joint[: len(self.held)], joint[len(self.held) :]
        curved = differentiate(self.slopes, tensors[part], along, retain_graph=True)
        weights = len(curved) - len(alphas)
        return [*curved[:weights], *add(curved[weights:], explicit)]


def require_product_settings(kind: str, difference: str) -> None:
    """ValueError for a kind of products or differences that does not exist."""
    for name, value, known in (("products", kind, ProductKind), ("difference", difference, Difference)):
        if value not in get_args(known):
            raise ValueError(f"{name} must be one of {', '.join(map(repr, get_args(known)))}, not {value!r}")


def make_products(
    problem: Problem, kind: ProductKind, step: float = 1e-2, difference: Difference = "one_sided"
) -> Products:
    """Products of that kind at the present weights; `step` and `difference` are those of finite differences."""
    if kind == "finite_difference":
        return FiniteDifferenceProducts(problem, step, difference)
    return GaussNewtonProducts(problem) if kind == "gauss_newton" else ExactProducts(problem)
