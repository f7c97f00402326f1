"""The gradient of an outer loss through the solution of an inner one.

min over alpha of L2(w*(alpha), alpha) with w*(alpha) = argmin over w of L1(w, alpha); `inner` is L1, `outer` is L2.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from pipeline.bilevel.errors import require_finite
from pipeline.bilevel.methods import Method, Parts
from pipeline.bilevel.problem import Loss, Problem, Reduce
from pipeline.bilevel.solvers import Trace
from pipeline.bilevel.vectors import Vector, add, norm


@dataclass(frozen=True, kw_only=True)
class Diagnostics(Trace):
    """How far to trust a hypergradient; None where the method does not know."""

    direct_norm: float
    indirect_norm: float


@dataclass(frozen=True)
class HypergradientResult:
    """gradient = direct + indirect, one tensor per alpha."""

    gradient: Vector
    direct: Vector
    indirect: Vector
    diagnostics: Diagnostics
    inner_gradient: Vector | None
    """dL1/dw of this rank at w, where the method computed it: it may serve as the next weight step's gradient."""
    end: Vector | None
    """The weights that the outer loss was taken at, where the method moved them: the end of an unroll, BVFIM's y."""


def hypergradient(
    inner: Loss,
    outer: Loss,
    w: Sequence[Tensor],
    alpha: Sequence[Tensor],
    method: Method,
    *,
    reduce: Reduce = list,
    buffers: Sequence[Tensor] = (),
) -> Vector:
    """dL_outer/dalpha, one tensor per alpha; w, alpha, their .grad and `buffers` are bit-identical afterwards.

    The losses may read their arguments or close over a module whose parameters are the tensors of `w`; methods that
    need other weights write them into these tensors for the time being. Name the BatchNorm statistics of such a module
    as `buffers`. `reduce` averages a list of tensors over ranks: it is called with the outer gradient, every product,
    every unrolled step and every loss that something is decided by, in the same order on all ranks, which then return
    the same hypergradient of the mean loss.
    """
    method = _require_method(method)
    problem = Problem(inner, outer, w, alpha, reduce, buffers)
    return _result(method.parts(problem, diagnose=False)).gradient


def hypergradient_with_diagnostics(
    inner: Loss,
    outer: Loss,
    w: Sequence[Tensor],
    alpha: Sequence[Tensor],
    method: Method,
    *,
    reduce: Reduce = list,
    buffers: Sequence[Tensor] = (),
) -> HypergradientResult:
    """`hypergradient`, its two parts and how the solve went; Neumann pays the last H V_k for its residual."""
    method = _require_method(method)
    problem = Problem(inner, outer, w, alpha, reduce, buffers)
    return _result(method.parts(problem, diagnose=True))


def _require_method(method: object) -> Method:
    """The method, or a TypeError that says what one is."""
    if isinstance(method, Method):
        return method
    known = ", ".join(sorted(_names(Method)))
    raise TypeError(f"method = {method!r}, where a method with its settings is wanted, as in Neumann(0.01, 2); {known}")


def _names(kind: type) -> list[str]:
    """The methods that there are: kinds without kinds of their own."""
    below: list[type] = kind.__subclasses__()
    return [name for one in below for name in _names(one)] if below else [kind.__name__]


def _result(parts: Parts) -> HypergradientResult:
    diagnostics = Diagnostics(
        **vars(parts.trace),
        direct_norm=require_finite(norm(parts.direct), "the direct part"),
        indirect_norm=require_finite(norm(parts.indirect), "the indirect part"),
    )
    gradient = add(parts.direct, parts.indirect)
    return HypergradientResult(gradient, parts.direct, parts.indirect, diagnostics, parts.inner_gradient, parts.end)
