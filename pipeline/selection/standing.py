"""How well a ranking of networks agrees with what they reached: Kendall's τ, its interval, and left-out predictions."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau

Array = NDArray[np.float64]
_RESAMPLES, _FOLDS = 200, 5
FEWEST = 4
"""Networks, below which nothing is learned of them."""


class Standing(NamedTuple):
    """How a source did on the trained networks: Kendall's τ with its 95 % interval, and the weight it earned.

    The τ of what is learned from the trained networks is that of predictions for networks left out of the fit.
    """

    source: str
    tau: float
    low: float
    high: float
    weight: float | None


def tau_of(x: Array, y: Array) -> float:
    """Kendall's τ; 0 where one side is constant."""
    tau = kendalltau(x, y).statistic
    return float(tau) if np.isfinite(tau) else 0.0


def standing_of(source: str, x: Array, y: Array, weight: float | None) -> Standing:
    """τ with a bootstrap interval."""
    drawn = np.random.default_rng(0).integers(len(y), size=(_RESAMPLES, len(y)))
    low, high = np.percentile([tau_of(x[rows], y[rows]) for rows in drawn], [2.5, 97.5])
    return Standing(source, tau_of(x, y), float(low), float(high), weight)


def left_out(predict: Callable[[Sequence[int], Sequence[int]], Array], count: int) -> Array:
    """Predictions for networks by fits without them; `predict` takes the places of those fitted and of those asked."""
    predicted = np.zeros(count)
    if count < FEWEST:
        return predicted
    for fold in range(min(_FOLDS, count)):
        test = list(range(fold, count, _FOLDS))
        predicted[test] = predict([row for row in range(count) if row not in test], test)
    return predicted
