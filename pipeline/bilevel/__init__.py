"""Hypergradients of bilevel problems (iDARTS eq. 3-9 and Table 4, BVFIM), in torch alone."""

from pipeline.bilevel.errors import (
    BarrierError,
    DivergenceError,
    HypergradientError,
    NegativeCurvatureError,
    NonFiniteError,
    SingularHessianError,
    StepTooSmallError,
)
from pipeline.bilevel.hypergradient import (
    Diagnostics,
    HypergradientResult,
    hypergradient,
    hypergradient_with_diagnostics,
)
from pipeline.bilevel.implicit import T1T2, ConjugateGradient, ExactInverse, Neumann, OneStepUnroll
from pipeline.bilevel.methods import DirectOnly, Method
from pipeline.bilevel.problem import Composition
from pipeline.bilevel.unrolled import ReverseMode, TruncatedReverse
from pipeline.bilevel.value_function import ValueFunction

__all__ = [
    "T1T2",
    "BarrierError",
    "Composition",
    "ConjugateGradient",
    "Diagnostics",
    "DirectOnly",
    "DivergenceError",
    "ExactInverse",
    "HypergradientError",
    "HypergradientResult",
    "Method",
    "NegativeCurvatureError",
    "Neumann",
    "NonFiniteError",
    "OneStepUnroll",
    "ReverseMode",
    "SingularHessianError",
    "StepTooSmallError",
    "TruncatedReverse",
    "ValueFunction",
    "hypergradient",
    "hypergradient_with_diagnostics",
]
