"""Predictions from a latency table: r, its interval, and r as costs that are linear in the choices."""

import math
from collections.abc import Iterable
from typing import NamedTuple

from pipeline.artifacts.known_latency import PREDICTED
from pipeline.artifacts.latency_table import Calibration, LatencyTable, Precision, SkeletonEntry, Validation
from pipeline.errors import UserError
from pipeline.latency.budget_rule import Measured
from pipeline.latency.calibration import group_of
from pipeline.latency.executed import executed_sites, unmerged_costs
from pipeline.latency.statistics import Interval
from pipeline.space.costs import Costs, site_costs
from pipeline.space.genotype import Genotype
from pipeline.space.plan import all_sites
from pipeline.space.sites import Site
from pipeline.space.skeleton import Skeleton

_HALF_WIDTHS = 1.96 / math.sqrt(2 / math.pi)  # of 95 %, in mean absolute errors, if these are normal


class Prediction(NamedTuple):
    """r, and the interval that holds the measured median of 95 % of networks."""

    ms: float
    low_ms: float
    high_ms: float


class Predictor:
    """Whole-network latency around one skeleton: r = b + Σ κ_g · s_g, in calibrated milliseconds."""

    def __init__(self, table: LatencyTable, skeleton: Skeleton, precision: Precision = "fp32") -> None:
        if table.space != skeleton.space:
            raise UserError(f"the latency table is of the space {table.space!r}, the network of {skeleton.space!r}")
        self._sites = table.column(precision).sites
        self.skeleton = skeleton
        self._check_sites(all_sites(skeleton))
        entry = table.column(precision).entry(skeleton)
        if entry is None:
            raise UserError(
                f"the latency table is not calibrated for {skeleton.cells} cells, {skeleton.channels} channels, "
                f"{skeleton.resolution} px, {skeleton.classes} classes; run `pipeline profile`"
            )
        self._entry: SkeletonEntry = entry
        self.sentinel_ms = table.column(precision).sentinel_ms

    @property
    def calibration(self) -> Calibration:
        return self._entry.calibration

    @property
    def validation(self) -> Validation | None:
        return self._entry.validation

    def _check_sites(self, sites: Iterable[Site]) -> None:
        missing = sorted({site.key for site in sites if site.key not in self._sites})
        if missing:
            more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
            raise UserError(f"the latency table lacks {', '.join(missing[:3])}{more}; run `pipeline profile`")

    def price_ms(self, site: Site) -> float:
        """What the site adds to r."""
        kappa = self.calibration.corrections.get(group_of(site), self.calibration.kappa)
        return kappa * self._sites[site.key].p50_ms

    def predict(self, genotype: Genotype) -> Prediction:
        """r of a network as the runtime executes it."""
        return self.predict_sites(executed_sites(self.skeleton, genotype, self.calibration.merged))

    @property
    def _half_width(self) -> float:
        """What the fit promises, or what the networks outside it show if that is more: machines change meanwhile."""
        promised, shown = self.calibration.interval, self.validation
        return promised if shown is None else max(promised, min(_HALF_WIDTHS * shown.mape, 1.0))

    def predict_sites(self, sites: Iterable[Site]) -> Prediction:
        """r of any network of these sites."""
        sites = list(sites)
        self._check_sites(sites)
        ms = self.calibration.b_ms + sum(self.price_ms(site) for site in sites)
        return Prediction(ms, ms * (1.0 - self._half_width), ms * (1.0 + self._half_width))

    def costs(self) -> Costs:
        """r as fixed + Σ of the chosen operations, b included in the fixed part.

        Linear, so operations that the runtime merges are counted each: never below `predict`.
        """
        costs = site_costs(self.skeleton, self.price_ms)
        return costs._replace(fixed=costs.fixed + self.calibration.b_ms)

    def least_costs(self) -> Costs:
        """Linear costs that are never above `predict`, of any network: what the runtime may merge counts nothing."""
        return unmerged_costs(self.skeleton, self.costs()) if self.calibration.merged else self.costs()

    def limit_ms(self, budget_ms: float, percentile: int) -> float:
        """The limit on r that keeps the percentile within the budget T: T over the fitted ratio of the percentile."""
        if percentile not in self._ratios:
            raise UserError(f"percentile must be 50, 95 or 99, not {percentile}")
        return budget_ms / self._ratios[percentile]

    @property
    def _ratios(self) -> dict[int, float]:
        return {50: 1.0, 95: self.calibration.p95_ratio, 99: self.calibration.p99_ratio}

    def expect(self, genotype: Genotype) -> Measured:
        """What stands in for a measurement where the table's machine cannot be asked: r and its interval, scaled."""
        return expected(self.predict(genotype), self.calibration.p95_ratio, self.calibration.p99_ratio)


def expected(r: Prediction, p95_ratio: float, p99_ratio: float) -> Measured:
    """A prediction in the place of a measurement."""
    p50, p95, p99 = (Interval(ratio * r.low_ms, ratio * r.high_ms) for ratio in (1.0, p95_ratio, p99_ratio))
    return Measured(r.ms, p95_ratio * r.ms, p99_ratio * r.ms, 0.0, None, p95, p99, p50, PREDICTED)
