"""Which hypergradient a `--method` means."""

from collections.abc import Callable
from typing import Literal, NamedTuple

from pipeline.bilevel import (
    T1T2,
    ConjugateGradient,
    Diagnostics,
    DirectOnly,
    Method,
    Neumann,
    ReverseMode,
    TruncatedReverse,
    ValueFunction,
)
from pipeline.search_config import SearchConfig

_CG_RTOL = 1e-3
# ‖εV‖ of finite differences. On real images the kinks of a ReLU network leave little of a difference at 0.01 (cosine
# with exact products 0.14 to 0.66, two to three times their norm); at 0.1 it is 0.61 to 0.91.
_DIFFERENCE_STEP = 0.1
# Trained weights are worth more than architecture steps: on NAS-Bench-201 64 found more than 16 or 32 in equal minutes.
_INNER_STEPS, _WANTED_ARCHITECTURE_STEPS, _UNROLLED_STEPS = 64, 20, 16
_NO_SOLUTION = 1.0  # the residual of x = 0
_BARRIER_FLOOR = 1e-3
_LEAST_LOSS = 1e-2  # below it a share of the training loss is lost in its rounding


class Progress(NamedTuple):
    """What a method's schedule depends on: architecture steps taken, and the training loss since the last one."""

    alpha_step: int = 0
    train_loss: float = 1.0


START = Progress()


def make_method(config: SearchConfig, gamma: float, progress: Progress = START) -> Method:
    """The method of the configuration at step size `gamma` (cg: damped by 1/gamma, which bounds its steps alike)."""
    terms, steps = config.neumann_terms, config.inner_steps or _UNROLLED_STEPS
    methods: dict[str, Callable[[], Method]] = {
        "idarts": lambda: Neumann(gamma, terms, config.products, _DIFFERENCE_STEP),
        "darts": lambda: ReverseMode(gamma, 1, config.products, _DIFFERENCE_STEP, "central"),
        "first-order": DirectOnly,
        "t1t2": T1T2,
        "cg": lambda: _conjugate_gradient(config, gamma),
        "reverse": lambda: ReverseMode(gamma, steps),
        "truncated": lambda: TruncatedReverse(gamma, steps, min(terms + 1, steps)),
        "bvfim": lambda: _value_function(config, gamma, progress),
    }
    return methods[config.method]()


def _conjugate_gradient(config: SearchConfig, gamma: float) -> ConjugateGradient:
    """Damped, as a Hessian of a network is indefinite; differences are too rough for its recursion."""
    products: Literal["exact", "gauss_newton"] = "gauss_newton" if config.products == "gauss_newton" else "exact"
    return ConjugateGradient(config.neumann_terms + 1, _CG_RTOL, 1 / gamma, products)


def misses_solution(method: Method, diagnostics: Diagnostics) -> bool:
    """Whether a linear solve ended no nearer to the solution than x = 0; other methods solve nothing."""
    residual = diagnostics.residual
    return isinstance(method, Neumann | ConjugateGradient) and residual is not None and residual >= _NO_SOLUTION


def _value_function(config: SearchConfig, step: float, progress: Progress) -> ValueFunction:
    """BVFIM with tau and mu2 falling together, so that tau ln mu2 -> 0; z is the supernet's weights.

    mu1 = 0 because the inner loss holds the weight decay that the supernet is trained with; theta is the same for y.
    """
    share = max(config.barrier_decay**-progress.alpha_step, _BARRIER_FLOOR)
    return ValueFunction(
        step,
        config.barrier_steps,
        tau=config.barrier_tau * share,
        theta=config.weight_decay,
        mu1=0.0,
        mu2=config.barrier_gap * max(progress.train_loss, _LEAST_LOSS) * share,
    )


def reference_method(config: SearchConfig, gamma: float) -> Method | None:
    """What the method in use is compared with once per run: exact products, twice the terms.

    None for bvfim, whose gradient is that of another function.
    """
    if config.method == "bvfim":
        return None
    return Neumann(gamma, 2 * config.neumann_terms + 2, "exact")


def inner_steps(config: SearchConfig, steps: int) -> int:
    """T in a search of so many steps after its warm-up; DARTS alternates one and one."""
    if config.method == "darts":
        return 1
    return config.inner_steps or max(1, min(_INNER_STEPS, steps // _WANTED_ARCHITECTURE_STEPS))
