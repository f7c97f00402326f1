"""latency_tables/DEVICE__SPACE.json: what was measured, on what, and how far it can be trusted."""

from dataclasses import asdict
from typing import Any, Literal

from pipeline.artifacts.document import Part, Sealed
from pipeline.artifacts.fields import NonNegative, Number
from pipeline.errors import UserError
from pipeline.fingerprint import Fingerprint
from pipeline.space.skeleton import Skeleton

Precision = Literal["fp32", "int8"]
PRECISIONS: tuple[Precision, ...] = ("fp32", "int8")


class SiteTime(Part):
    """One site: its time, the interquartile range of a single call, and how many calls it rests on."""

    p50_ms: NonNegative
    spread_ms: NonNegative
    count: int


class NetworkTime(Part):
    """One whole network: wall clock."""

    genotype: dict[str, Any]
    p50_ms: NonNegative
    p95_ms: NonNegative
    p99_ms: NonNegative


class Calibration(Part):
    """r = b + Σ κ_g · s_g over groups g of operations; a group without a correction has the common κ.

    `merged` says whether the runtime computes equal operations once (see `pipeline.latency.executed`).
    `interval` is the relative half-width of the 95 % prediction interval; the ratios are p95/p50 and p99/p50 of whole
    networks.
    """

    kappa: NonNegative
    b_ms: Number
    corrections: dict[str, NonNegative]
    merged: bool
    interval: NonNegative
    p95_ratio: NonNegative
    p99_ratio: NonNegative


class Validation(Part):
    """How the prediction did on networks outside the fit, with 95 % bootstrap intervals."""

    networks: int
    mape: NonNegative
    mape_interval: tuple[NonNegative, NonNegative]
    within_10: NonNegative
    within_10_interval: tuple[NonNegative, NonNegative]
    kendall_tau: Number
    kendall_tau_interval: tuple[Number, Number]
    passed: bool


class SkeletonEntry(Part):
    """A skeleton that was calibrated: the networks that were timed, and what follows from them."""

    skeleton: dict[str, Any]
    calibration: Calibration
    validation: Validation | None
    calibration_networks: list[NetworkTime]
    validation_networks: list[NetworkTime]


class Column(Part):
    """All that was measured at one precision. `sentinel_ms` is the sentinel at the machine's quiet speed."""

    sentinel_ms: NonNegative
    noise_floor: NonNegative
    sites: dict[str, SiteTime]
    skeletons: list[SkeletonEntry]

    def entry(self, skeleton: Skeleton) -> SkeletonEntry | None:
        """What is known about networks around the skeleton."""
        wanted = asdict(skeleton)
        return next((entry for entry in self.skeletons if entry.skeleton == wanted), None)


class LatencyTable(Sealed):
    """A table of one space on one device."""

    name, maker = "table", "profile"
    version_key = "schema_version"

    space: str
    fingerprint: Fingerprint
    measured: str
    precisions: dict[Precision, Column]

    def column(self, precision: Precision) -> Column:
        if precision not in self.precisions:
            raise UserError(
                f"the latency table has no {precision} column; run `pipeline profile --precision {precision}`"
            )
        return self.precisions[precision]
