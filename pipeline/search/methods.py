"""Which hypergradient a `--method` means."""

from collections.abc import Callable

from pipeline.bilevel import T1T2, ConjugateGradient, DirectOnly, Method, Neumann, ReverseMode, TruncatedReverse
from pipeline.config import SearchConfig

_CG_RTOL = 1e-3


def make_method(config: SearchConfig, gamma: float) -> Method:
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
    }
    return methods[config.method]()


def reference_method(config: SearchConfig, gamma: float) -> Method:
    """What the method in use is compared with once per run: exact products, twice the terms."""
    return Neumann(gamma, 2 * config.neumann_terms + 2, "exact")


def inner_steps(config: SearchConfig) -> int:
    """T: weight steps per architecture step; DARTS alternates one and one."""
    return 1 if config.method == "darts" else config.inner_steps
