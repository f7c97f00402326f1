"""From site times to network times: r = b + Σ_g κ_g · s_g, fitted on whole networks.

s_g is the summed time of a network's sites in group g. With one group this is r = κ·s + b. Groups are operations at
a stride, for a runtime treats an operation in a network otherwise than alone (fused sums, layout changes); their κ_g
are drawn to a common κ by a ridge whose weight is chosen by cross-validation, and kept only if they predict networks
outside the fit better than κ alone. Errors are relative, and networks far off count less (Cauchy weights).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import lsq_linear
from scipy.stats import t as student

from pipeline.artifacts.latency_table import Calibration, NetworkTime, SiteTime
from pipeline.errors import UserError
from pipeline.latency.executed import executed_sites
from pipeline.space.genotype import genotype_from_record
from pipeline.space.sites import Site
from pipeline.space.skeleton import Skeleton

Array = NDArray[np.float64]

# Weight of (κ_g − κ)² against squared relative errors: with errors of 2 % these allow κ_g about ±1 … ±0.04 around κ.
_RIDGES = (0.0004, 0.002, 0.01, 0.05, 0.25)
_FOLDS = 6
_PAYS = 0.95  # what is less simple must bring the cross-validated error below this share of what is simpler
_FEWEST_FOR_CORRECTIONS = 12
_REWEIGHTINGS = 10
_CAUCHY = 2.385  # in robust standard deviations
_SMALLEST_KAPPA, _LARGEST_KAPPA = 0.2, 5.0


def group_of(site: Site) -> str:
    """The group that a site is corrected with."""
    return f"{site.operation}/s{site.stride}"


class Sums(NamedTuple):
    """Of each network: all site times, and those by group (columns in the order of `groups`)."""

    total: Array
    by_group: Array
    groups: tuple[str, ...]


class Fit(NamedTuple):
    """κ_g per group and b."""

    kappas: Array
    b_ms: float


class Model(NamedTuple):
    """A fitted way to predict, and the relative errors it leaves outside the fit."""

    kappa: float
    b_ms: float
    corrections: dict[str, float]
    merged: bool
    errors: Array


class Choice(NamedTuple):
    """A weight of the ridge and the errors it leaves outside the fit."""

    ridge: float
    errors: Array


def sum_sites(
    skeleton: Skeleton, sites: dict[str, SiteTime], networks: Sequence[NetworkTime], merged: bool = False
) -> Sums:
    """The summed site times of the networks; with `merged`, of what a runtime executes that merges equal operations."""
    executed = [executed_sites(skeleton, genotype_from_record(n.genotype), merged) for n in networks]
    missing = sorted({site.key for own in executed for site in own if site.key not in sites})
    if missing:
        raise UserError(f"the latency table lacks the sites {', '.join(missing[:5])}; run `pipeline profile`")
    groups = tuple(sorted({group_of(site) for own in executed for site in own}))
    by_group = np.zeros((len(networks), len(groups)))
    for row, own in enumerate(executed):
        for site in own:
            by_group[row, groups.index(group_of(site))] += sites[site.key].p50_ms
    return Sums(by_group.sum(axis=1), by_group, groups)


def calibrate(skeleton: Skeleton, sites: dict[str, SiteTime], networks: Sequence[NetworkTime]) -> Calibration:
    """Fit the networks' measured medians, in the way that predicts networks outside the fit best."""
    measured = np.array([network.p50_ms for network in networks])
    plain, merging = (
        _fit_sums(sum_sites(skeleton, sites, networks, merged), measured, merged) for merged in (False, True)
    )
    best = merging if _pays(merging.errors, plain.errors) else plain
    return Calibration(
        kappa=best.kappa,
        b_ms=best.b_ms,
        corrections=best.corrections,
        merged=best.merged,
        interval=_interval(best.errors),
        p95_ratio=float(np.median([network.p95_ms / network.p50_ms for network in networks])),
        p99_ratio=float(np.median([network.p99_ms / network.p50_ms for network in networks])),
    )


def _fit_sums(sums: Sums, measured: Array, merged: bool) -> Model:
    """κ and b, and corrections where they pay; refuses sites and networks that cannot be in the same unit."""
    plain = fit(sums.total[:, None], measured)
    kappa = float(plain.kappas[0])
    if not _SMALLEST_KAPPA <= kappa <= _LARGEST_KAPPA:
        raise UserError(
            f"whole networks take {kappa:.3g} times what their sites add up to: the times are not all in milliseconds, "
            "or the machine was far too busy; profile again"
        )
    errors = cross_validate(sums.total[:, None], measured)
    varied = np.ptp(sums.by_group, axis=0) > 0.0  # the rest is the same in all networks: part of b
    if len(measured) >= _FEWEST_FOR_CORRECTIONS and varied.any():
        ridge, corrected = _best_ridge(sums.by_group[:, varied], measured)
        if _pays(corrected, errors):
            chosen = fit(sums.by_group[:, varied], measured, ridge)
            groups = [group for group, own in zip(sums.groups, varied, strict=True) if own]
            corrections = {group: float(k) for group, k in zip(groups, chosen.kappas, strict=True)}
            b_ms = chosen.b_ms - kappa * float(sums.by_group[0, ~varied].sum())
            return Model(kappa, b_ms, corrections, merged, corrected)
    return Model(kappa, plain.b_ms, {}, merged, errors)


def predict(calibration: Calibration, sums: Sums) -> Array:
    """r of each network."""
    kappas = np.array([calibration.corrections.get(group, calibration.kappa) for group in sums.groups])
    predicted: Array = sums.by_group @ kappas + calibration.b_ms
    return predicted


def fit(s: Array, measured: Array, ridge: float = 0.0) -> Fit:
    """Least squares of relative errors plus ridge · Σ (κ_g − κ)², over κ, κ_g ≥ 0 and b."""
    count, groups = s.shape
    weights = np.ones(count)
    # unknowns: κ_1 … κ_G, κ, b
    data = np.column_stack([s, np.zeros(count), np.ones(count)]) / measured[:, None]
    prior = np.sqrt(max(ridge, 1e-12)) * np.column_stack([np.eye(groups), -np.ones(groups), np.zeros(groups)])
    low = np.array([0.0] * (groups + 1) + [-np.inf])
    unknown = np.zeros(groups + 2)
    for _ in range(_REWEIGHTINGS):
        rows = np.vstack([np.sqrt(weights)[:, None] * data, prior])
        target = np.concatenate([np.sqrt(weights), np.zeros(groups)])
        unknown = np.linalg.lstsq(rows, target)[0]
        if (unknown < low).any():
            unknown = lsq_linear(rows, target, bounds=(low, np.inf)).x
        residuals = np.abs(data @ unknown - 1.0)
        limit = _CAUCHY * max(1.4826 * float(np.median(residuals)), 1e-9)
        weights = 1.0 / (1.0 + (residuals / limit) ** 2)
    return Fit(unknown[:groups], float(unknown[-1]))


def cross_validate(s: Array, measured: Array, ridge: float = 0.0) -> Array:
    """Relative errors of networks that were left out of the fit, in turns."""
    errors = np.zeros(len(measured))
    folds = min(_FOLDS, len(measured))
    for fold in range(folds):
        out = np.arange(len(measured)) % folds == fold
        kappas, b_ms = fit(s[~out], measured[~out], ridge)
        errors[out] = (s[out] @ kappas + b_ms) / measured[out] - 1.0
    return errors


def _best_ridge(s: Array, measured: Array) -> Choice:
    tried = [Choice(ridge, cross_validate(s, measured, ridge)) for ridge in _RIDGES]
    return min(tried, key=lambda choice: float(np.abs(choice.errors).mean()))


def _pays(errors: Array, simpler: Array) -> bool:
    return float(np.abs(errors).mean()) < _PAYS * float(np.abs(simpler).mean())


def _interval(errors: Array) -> float:
    """Relative half-width that holds 95 % of new networks if errors are normal: t · σ · √(1 + 1/n)."""
    count = len(errors)
    sigma = float(np.sqrt(np.mean(errors**2)))
    return float(student.ppf(0.975, max(count - 2, 1)) * sigma * np.sqrt(1.0 + 1.0 / count))
