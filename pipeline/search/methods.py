"""Which hypergradient a `--method` means."""

from collections.abc import Callable
from typing import NamedTuple

from pipeline.bilevel import (
    T1T2,
    ConjugateGradient,
    DirectOnly,
    Method,
    Neumann,
    ReverseMode,
    TruncatedReverse,
    ValueFunction,
)
from pipeline.config import SearchConfig

_CG_RTOL = 1e-3
_BARRIER_FLOOR = 1e-3
_LEAST_LOSS = 1e-2  # below it a share of the training loss is lost in its rounding


class Progress(NamedTuple):
    """What a method's schedule depends on: architecture steps taken, and the training loss since the last one."""

    alpha_step: int = 0
    train_loss: float = 1.0


START = Progress()


def make_method(config: SearchConfig, gamma: float, progress: Progress = START) -> Method:
    """The method of the configuration at step size `gamma` (cg: damped by 1/gamma, which bounds its steps alike)."""
    terms, steps = config.neumann_terms, config.inner_steps
    methods: dict[str, Callable[[], Method]] = {
        "idarts": lambda: Neumann(gamma, terms, config.products),
        "darts": lambda: Neumann(gamma, 0, config.products),  # eq. 3: the series of one term
        "first-order": DirectOnly,
        "t1t2": T1T2,
        "cg": lambda: ConjugateGradient(steps=terms + 1, rtol=_CG_RTOL, damping=1 / gamma),
        "reverse": lambda: ReverseMode(gamma, steps),
        "truncated": lambda: TruncatedReverse(gamma, steps, min(terms + 1, steps)),
        "bvfim": lambda: _value_function(config, gamma, progress),
    }
    return methods[config.method]()


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


def inner_steps(config: SearchConfig) -> int:
    """T: weight steps per architecture step; DARTS alternates one and one."""
    return 1 if config.method == "darts" else config.inner_steps
