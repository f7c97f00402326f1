"""What a hypergradient refuses to return a number for."""

import math
from collections.abc import Sequence


class HypergradientError(ArithmeticError):
    """No trustworthy hypergradient exists for this method at this point; the message says why and what to change."""


class NonFiniteError(HypergradientError):
    """A gradient or a product holds NaN or infinity."""


class DivergenceError(HypergradientError):
    """The Neumann series grows: ||V_k|| > 10 ||V_0||, so gamma is too large for this Hessian."""

    def __init__(self, gamma: float, norms: Sequence[float]) -> None:
        self.gamma = gamma
        self.norms = tuple(norms)
        growth = self.norms[-1] / self.norms[0]
        super().__init__(
            f"Neumann term {len(self.norms) - 1} has {growth:.3g} times the norm of term 0 at gamma={gamma:g}; "
            "use a smaller gamma"
        )


class NegativeCurvatureError(HypergradientError):
    """Conjugate gradient met a direction p with p.(H + damping I)p <= 0, where its recursion means nothing."""

    def __init__(self, curvature: float, damping: float, step: int) -> None:
        self.curvature = curvature
        self.damping = damping
        self.step = step
        super().__init__(
            f"the Hessian has curvature {curvature - damping:.3g} along step {step} of conjugate gradient, "
            f"too little for a damping of {damping:g}; use a larger one or another method"
        )


class SingularHessianError(HypergradientError):
    """The dense Hessian has no inverse to working precision."""


class StepTooSmallError(HypergradientError):
    """A finite-difference step vanished in the rounding of the weights."""


class BarrierError(HypergradientError):
    """The value-function method left the inside of its barrier, or finds no step that stays there."""


def require_finite(value: float, what: str) -> float:
    """The value, or NonFiniteError."""
    if not math.isfinite(value):
        raise NonFiniteError(f"{what} holds NaN or infinity")
    return value
