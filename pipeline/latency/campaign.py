"""A campaign: everything that is timed for a table, by name, and the table that follows from the timings.

The same campaign is measured here, or written into a kit and measured elsewhere. It is fixed by its settings alone:
networks are drawn by seed and spread over multiply-adds, which are known before anything is timed.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from pipeline.artifacts.latency_table import Column, LatencyTable, NetworkTime, Precision, SiteTime, SkeletonEntry
from pipeline.errors import UserError
from pipeline.fingerprint import Fingerprint
from pipeline.latency.calibration import calibrate
from pipeline.latency.measure import Device, Measurement
from pipeline.latency.models import make_model, make_network
from pipeline.latency.probes import example_input, make_probes, site_times
from pipeline.latency.quantized import quantize_bytes
from pipeline.latency.statistics import Timing
from pipeline.latency.validity import validate
from pipeline.space.costs import mac_costs
from pipeline.space.genotype import Genotype
from pipeline.space.plan import all_sites, count_params
from pipeline.space.sampling import spread_genotypes
from pipeline.space.sites import Site
from pipeline.space.skeleton import Skeleton

_CALIBRATION_SEED, _VALIDATION_SEED = 1, 3
_BYTES_PER_WEIGHT = 4

Thunk = Callable[[], Any]


class Roles(NamedTuple):
    """The whole networks of one skeleton."""

    calibration: list[Genotype]
    validation: list[Genotype]


@dataclass(frozen=True)
class Campaign:
    """What is timed: the sites of the skeletons (all of one space), and whole networks around each."""

    skeletons: tuple[Skeleton, ...]
    precisions: tuple[Precision, ...] = ("fp32",)
    copies: int = 5
    calibration_networks: int = 12
    validation_networks: int = 20

    @property
    def space(self) -> str:
        return self.skeletons[0].space

    @property
    def sites(self) -> list[Site]:
        return list(dict.fromkeys(site for skeleton in self.skeletons for site in all_sites(skeleton)))

    def roles(self, skeleton: Skeleton) -> Roles:
        """The networks around a skeleton; those for validation are none of those for calibration."""
        costs = mac_costs(skeleton)
        fit = spread_genotypes(self.space, costs, self.calibration_networks, _CALIBRATION_SEED)
        if not self.validation_networks:
            return Roles(fit, [])
        return Roles(fit, spread_genotypes(self.space, costs, self.validation_networks, _VALIDATION_SEED, fit))

    def networks(self) -> Iterator[tuple[str, Skeleton, Genotype]]:
        """Every whole network by name."""
        for skeleton in self.skeletons:
            for role, genotypes in self.roles(skeleton)._asdict().items():
                for index, genotype in enumerate(genotypes):
                    yield network_name(skeleton, role, index), skeleton, genotype

    def record(self) -> dict[str, Any]:
        return {**asdict(self), "skeletons": [asdict(skeleton) for skeleton in self.skeletons]}

    @property
    def digest(self) -> str:
        """A name for exactly this campaign."""
        return hashlib.sha256(json.dumps(self.record(), sort_keys=True).encode()).hexdigest()[:16]


def network_name(skeleton: Skeleton, role: str, index: int) -> str:
    return f"{skeleton.cells}x{skeleton.channels}@{skeleton.resolution}/{role}{index}"


def timed_name(precision: str, name: str) -> str:
    return f"{precision}/{name}"


def model_groups(campaign: Campaign, device: Device, most_bytes: int) -> list[dict[str, Thunk]]:
    """What is timed, as functions that make it: one group that is interleaved, or several if memory asks for it.

    `most_bytes` is for the weights of whole networks that are held together; a session needs about three times that.
    """
    groups: list[dict[str, Thunk]] = [{}]
    weight_bytes = 0
    for precision in campaign.precisions:
        for name, (module, span) in make_probes(campaign.sites, campaign.copies).items():
            example = example_input(span, device.fingerprint.batch)
            groups[-1][timed_name(precision, name)] = _probe_thunk(device, module, example, precision)
        for name, skeleton, genotype in campaign.networks():
            weight_bytes += _BYTES_PER_WEIGHT * count_params(skeleton, genotype)
            if weight_bytes > most_bytes:
                groups.append({})
                weight_bytes = 0
            groups[-1][timed_name(precision, name)] = _network_thunk(device, skeleton, genotype, precision)
    return groups


def _probe_thunk(device: Device, module: Any, example: Any, precision: str) -> Thunk:
    return lambda: _at_precision(make_model(device, module, [example]), tuple(example.shape), precision)


def _network_thunk(device: Device, skeleton: Skeleton, genotype: Genotype, precision: str) -> Thunk:
    shape = (device.fingerprint.batch, skeleton.in_channels, skeleton.resolution, skeleton.resolution)
    return lambda: _at_precision(make_network(device, skeleton, genotype), shape, precision)


def _at_precision(model: Any, shape: tuple[int, ...], precision: str) -> Any:
    if precision == "int8" and not isinstance(model, bytes):
        raise UserError("int8 is timed in onnxruntime only; leave --backend torch or --precision int8 out")
    return quantize_bytes(model, shape) if precision == "int8" else model


def make_table(campaign: Campaign, fingerprint: Fingerprint, measurement: Measurement) -> LatencyTable:
    """The table that a measured campaign gives."""
    columns: dict[Precision, Column] = {}
    for precision in campaign.precisions:
        prefix = timed_name(precision, "")
        own = {n.removeprefix(prefix): timing for n, timing in measurement.timings.items() if n.startswith(prefix)}
        sites = site_times(campaign.sites, campaign.copies, own)
        columns[precision] = Column(
            sentinel_ms=measurement.sentinel_ms,
            noise_floor=measurement.noise_floor,
            sites=sites,
            skeletons=[_make_entry(campaign, skeleton, sites, own) for skeleton in campaign.skeletons],
        )
    return LatencyTable(
        space=campaign.space,
        fingerprint=fingerprint,
        measured=datetime.now(UTC).isoformat(timespec="seconds"),
        precisions=columns,
    )


def _make_entry(
    campaign: Campaign, skeleton: Skeleton, sites: dict[str, SiteTime], timings: Mapping[str, Timing]
) -> SkeletonEntry:
    times = {
        role: [
            _network_time(genotype, timings[network_name(skeleton, role, index)])
            for index, genotype in enumerate(genotypes)
        ]
        for role, genotypes in campaign.roles(skeleton)._asdict().items()
    }
    return fit_entry(skeleton, sites, times["calibration"], times["validation"])


def _network_time(genotype: Genotype, timing: Timing) -> NetworkTime:
    return NetworkTime(genotype=genotype.record(), p50_ms=timing.p50_ms, p95_ms=timing.p95_ms, p99_ms=timing.p99_ms)


def fit_entry(
    skeleton: Skeleton, sites: dict[str, SiteTime], calibration: list[NetworkTime], validation: list[NetworkTime]
) -> SkeletonEntry:
    """Calibration and validity of a skeleton from its timed networks."""
    fitted = calibrate(skeleton, sites, calibration)
    return SkeletonEntry(
        skeleton=asdict(skeleton),
        calibration=fitted,
        validation=validate(skeleton, sites, fitted, validation) if validation else None,
        calibration_networks=calibration,
        validation_networks=validation,
    )
