"""The validity gate: the prediction against networks that the fit has not seen."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau

from pipeline.artifacts.latency_table import Calibration, NetworkTime, SiteTime, Validation
from pipeline.errors import UserError
from pipeline.latency.calibration import predict, sum_sites
from pipeline.space.skeleton import Skeleton

# DESIGN §5; no preset loosens these.
LARGEST_MAPE, SMALLEST_WITHIN_10, SMALLEST_TAU = 0.05, 0.95, 0.9
_RESAMPLES = 300

Array = NDArray[np.float64]


def validate(
    skeleton: Skeleton, sites: dict[str, SiteTime], calibration: Calibration, networks: Sequence[NetworkTime]
) -> Validation:
    """Mean absolute relative error, share within ±10 % and Kendall's τ, each with a bootstrap interval."""
    predicted = predict(calibration, sum_sites(skeleton, sites, networks, calibration.merged))
    measured = np.array([network.p50_ms for network in networks])
    mape, within, tau = scores(predicted, measured)
    picks = np.random.default_rng(0).integers(len(measured), size=(_RESAMPLES, len(measured)))
    resampled = np.array([scores(predicted[pick], measured[pick]) for pick in picks])
    low, high = np.percentile(resampled, [2.5, 97.5], axis=0).tolist()
    return Validation(
        networks=len(networks),
        mape=mape,
        mape_interval=(low[0], high[0]),
        within_10=within,
        within_10_interval=(low[1], high[1]),
        kendall_tau=tau,
        kendall_tau_interval=(low[2], high[2]),
        passed=passes_gate(mape, within, tau),
    )


def passes_gate(mape: float, within_10: float, kendall_tau: float) -> bool:
    """The gate of DESIGN §5: all three at once."""
    return mape <= LARGEST_MAPE and within_10 >= SMALLEST_WITHIN_10 and kendall_tau >= SMALLEST_TAU


def scores(predicted: Array, measured: Array) -> tuple[float, float, float]:
    """MAPE, share within ±10 %, τ."""
    errors = np.abs(predicted / measured - 1.0)
    tau = kendalltau(predicted, measured).statistic
    return float(errors.mean()), float((errors <= 0.1).mean()), float(0.0 if np.isnan(tau) else tau)


def describe_validation(validation: Validation | None) -> str:
    """One sentence for people."""
    if validation is None:
        return "not validated"
    return (
        f"{'valid' if validation.passed else 'NOT VALID'}: on {validation.networks} other networks the mean error is "
        f"{validation.mape:.1%} (limit {LARGEST_MAPE:.0%}), {validation.within_10:.0%} are within ±10 % "
        f"(limit {SMALLEST_WITHIN_10:.0%}), Kendall's tau is {validation.kendall_tau:.2f} (limit {SMALLEST_TAU})"
    )


def require_valid(validation: Validation | None, allow_unvalidated: bool) -> str | None:
    """Refuse a table that misses its gate; with the override, return the warning that every summary shows."""
    if validation is not None and validation.passed:
        return None
    sentence = f"the latency table is {describe_validation(validation)}"
    if not allow_unvalidated:
        raise UserError(
            f"{sentence}; run `pipeline profile --validate 20` on a quiet machine, or pass --allow-unvalidated"
        )
    return sentence
