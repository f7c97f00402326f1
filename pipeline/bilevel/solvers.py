"""Ways to apply the inverse of a symmetric matrix H that is known by its products only.

Notation: b = V_0 is the right-hand side, V_k = (I - gamma H)^k b the Neumann terms, x the solution of H x = b,
r = b - H x its residual, M the matrix of mixed derivatives that the solution is multiplied with.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from pipeline.bilevel.errors import DivergenceError, NegativeCurvatureError, SingularHessianError, require_finite
from pipeline.bilevel.products import Products
from pipeline.bilevel.spectrum import LanczosMatrix, NeumannSpectrum
from pipeline.bilevel.vectors import Vector, add, dot, flatten, machine_epsilon, norm, scaled, unflatten, zeros_like

MatVec = Callable[[Vector], Vector]

LARGEST_GROWTH = 10.0  # of ||V_k|| over ||V_0||; a supernet Hessian is indefinite, so some growth is normal


@dataclass(frozen=True)
class Trace:
    """How a solve went; None where it is not known."""

    norms: tuple[float, ...] = ()
    """||V_k|| for the Neumann terms or the steps back in time, ||r_k|| for conjugate gradient, ||dphi/dy|| of BVFIM."""
    residual: float | None = None
    """||b - A x|| / ||b|| of the linear solve; A is H with its damping. Last over first norm of a descent."""
    lambda_max: float | None = None
    """Largest eigenvalue of H, estimated from below."""
    gamma_lambda_max: float | None = None
    """gamma times that; the Neumann series needs it below 2."""
    gap: float | None = None
    """How far the lower loss is below its bound where the value-function method ends."""
    halvings: int | None = None
    """How often its descents had to halve a step."""


@dataclass(frozen=True)
class Solution:
    """x, or M x from a solver that multiplies as it goes."""

    value: Vector
    trace: Trace

    def multiplied(self, matvec: MatVec) -> "Solution":
        """The same with matvec(x) in place of x."""
        return replace(self, value=matvec(self.value))


def neumann(products: Products, b: Vector, gamma: float, terms: int, with_residual: bool) -> Solution:
    """M x for x = gamma * sum_{k=0..terms} V_k, which tends to H^-1 b when ||I - gamma H|| < 1 (iDARTS eq. 8).

    Each term meets M when it meets H. The residual is b - H x = V_{terms+1}, so it costs the H V_k of the last term.
    """
    v, total, norms, spectrum = b, None, [norm(b)], NeumannSpectrum()
    for k in range(terms + 1):
        if k == terms and not with_residual:
            mixed = products.mixed(v)
        else:
            hessian, mixed = products.both(v)
            following = add(v, hessian, -gamma)
            norms.append(require_finite(norm(following), "a Hessian product"))
            if k < terms and norms[-1] > LARGEST_GROWTH * norms[0]:
                raise DivergenceError(gamma, norms)
            spectrum.extend(v, scaled(hessian, gamma))
            v = following
        total = mixed if total is None else add(total, mixed)
    growth = spectrum.gamma_lambda_max
    trace = Trace(
        norms=tuple(norms[: terms + 1]),
        residual=_ratio(norms[-1], norms[0]) if with_residual else None,
        lambda_max=None if growth is None else growth / gamma,
        gamma_lambda_max=growth,
    )
    return Solution(scaled(total or [], gamma), trace)


def conjugate_gradient(matvec: MatVec, b: Vector, steps: int, rtol: float, damping: float) -> Solution:
    """x after at most `steps` steps on A x = b with A = H + damping I, from x = 0, or once ||r|| <= rtol ||b||.

    a = r.r / p.Ap;  x <- x + a p;  r' = r - a Ap;  p <- r' + (r'.r' / r.r) p.
    Below the unit roundoff the recursion says nothing more: rtol is never taken smaller, a curvature that small beside
    the largest one counts as none, and the residual is reported no smaller than the rounding of A x.
    """
    epsilon = machine_epsilon(b)
    x, r, p, squared = zeros_like(b), b, b, dot(b, b)
    target = max(rtol, epsilon) ** 2 * squared
    norms, lanczos, largest = [math.sqrt(squared)], LanczosMatrix(), 0.0
    while len(norms) <= steps and squared > target:
        product = add(matvec(p), p, damping)
        length, curvature = norm(p), require_finite(dot(p, product), "a Hessian product")
        largest = max(largest, norm(product) / length)
        if curvature <= 10.0 * epsilon * largest * length**2:
            raise NegativeCurvatureError(curvature / length**2, damping, len(norms))
        step = squared / curvature
        x, r = add(x, p, step), add(r, product, -step)
        previous, squared = squared, require_finite(dot(r, r), "a residual")
        p = add(r, p, squared / previous)
        lanczos.extend(step, squared / previous)
        norms.append(math.sqrt(squared))
    residual = _ratio(max(norms[-1], epsilon * largest * norm(x)), norms[0])
    ritz = lanczos.lambda_max()
    return Solution(x, Trace(tuple(norms), residual, None if ritz is None else ritz - damping))


def dense_solve(matvec: MatVec, b: Vector) -> Solution:
    """H^-1 b with H written out: one product per entry of b, and the square of their number in memory."""
    right = flatten(b)
    units = torch.eye(len(right), dtype=right.dtype, device=right.device)
    matrix = torch.stack([flatten(matvec(unflatten(unit, b))) for unit in units], dim=1)
    require_finite(float(matrix.norm()), "the Hessian")
    eigenvalues = torch.linalg.eigvalsh(matrix)
    smallest, largest = float(eigenvalues.abs().min()), float(eigenvalues.abs().max())
    if smallest <= len(right) * torch.finfo(right.dtype).eps * largest:
        raise SingularHessianError(f"the Hessian has no inverse: eigenvalues of size {smallest:.3g} to {largest:.3g}")
    x = torch.linalg.solve(matrix, right)
    residual = _ratio(float((right - matrix @ x).norm()), norm(b))
    return Solution(unflatten(x, b), Trace((norm(b),), residual, float(eigenvalues[-1])))


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
