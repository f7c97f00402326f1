"""The weight that every source of judgement earns on networks that were trained; sources speak in normal scores."""

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from scipy.optimize import nnls
from scipy.stats import rankdata

from pipeline.selection.standing import FEWEST, Array, tau_of

_RIDGES = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 1e9)
_NORMAL = NormalDist()


def normal_scores(values: Sequence[float] | Array) -> Array:
    """The normal quantiles of the values' ranks; equal values share one."""
    ranks = rankdata(values)
    return np.array([_NORMAL.inv_cdf(rank / (len(ranks) + 1)) for rank in ranks])


def place_score(reference: Array, value: float) -> float:
    """The normal quantile of a value's place among others; between two of them in proportion."""
    known = np.sort(reference[np.isfinite(reference)])
    below = len(reference) - len(known)  # −∞: networks that the source says pass nothing on
    if not np.isfinite(value) or not len(known):
        place = below / 2
    else:
        span = float(np.ptp(known)) or 1.0
        marks = np.concatenate([[known[0] - span], known, [known[-1] + span]])
        place = below + float(
            np.interp(value, marks, np.concatenate([[0.0], np.arange(len(known)) + 0.5, [len(known)]]))
        )
    return _NORMAL.inv_cdf((place + 0.5) / (len(reference) + 1))


def earn_weights(x: Array, y: Array, trust: Array) -> Array:
    """Non-negative ridge weights of the columns that agree with y, the ridge by leaving one out; none below `trust`.

    Columns without trust have no more weight than those with it, if there are such. The squared error of a left-out row
    is that of a fit without it; the largest ridge, which leaves trust as it is, is taken unless a smaller one predicts
    better, and beside trust by more than one standard error: of eight trainings some source pleases by chance.
    """
    weights = trust.copy()
    agree = [s for s in range(x.shape[1]) if tau_of(x[:, s], y) > 0] if len(y) >= FEWEST else []
    if not agree:
        return weights
    kept, rows = x[:, agree], np.arange(len(y))

    def errors(ridge: float) -> Array:
        return np.array(
            [(y[i] - kept[i] @ _ridge_fit(kept[rows != i], y[rows != i], ridge, trust[agree])) ** 2 for i in rows]
        )

    by_ridge = {ridge: errors(ridge) for ridge in reversed(_RIDGES)}
    best = min(by_ridge, key=lambda ridge: float(by_ridge[ridge].sum()))
    gain = by_ridge[_RIDGES[-1]] - by_ridge[best]
    if trust.any() and gain.mean() <= gain.std(ddof=1) / np.sqrt(len(gain)):
        return weights
    weights[agree] = np.maximum(trust[agree], _ridge_fit(kept, y, best, trust[agree]))
    earned, trusted = weights[trust == 0].sum(), weights[trust > 0].sum()
    if earned > trusted > 0:
        weights[trust == 0] *= trusted / earned
    return weights


def _ridge_fit(x: Array, y: Array, ridge: float, trust: Array) -> Array:
    """argmin over w ≥ 0 of ‖y − x·w‖² + ridge · ‖w − trust‖²."""
    size = x.shape[1]
    stacked = np.vstack([x, np.sqrt(ridge) * np.eye(size)])
    found: Array = nnls(stacked, np.concatenate([y, np.sqrt(ridge) * trust]))[0]
    return found
