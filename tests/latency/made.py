"""Tables made without a clock: site times drawn by seed, networks that follow r = κ·s + b, with noise if asked."""

from dataclasses import asdict

import numpy as np

from pipeline.artifacts.latency_table import Column, LatencyTable, NetworkTime, SiteTime
from pipeline.latency.campaign import fit_entry
from pipeline.space.costs import mac_costs
from pipeline.space.genotype import Genotype
from pipeline.space.plan import all_sites, network_sites
from pipeline.space.sampling import spread_genotypes
from pipeline.space.skeleton import Skeleton
from tests.latency.fakes import FINGERPRINT

SKELETON = Skeleton("darts", cells=3, channels=4, resolution=8, classes=3, in_channels=1)
KAPPA, B_MS = 1.5, 0.3


def made_sites(skeleton: Skeleton, seed: int = 0) -> dict[str, SiteTime]:
    generator = np.random.default_rng(seed)
    return {
        site.key: SiteTime(p50_ms=float(generator.uniform(0.01, 0.1)), spread_ms=0.001, count=9)
        for site in all_sites(skeleton)
    }


def made_table(skeleton: Skeleton = SKELETON, noise: float = 0.0, seed: int = 0) -> LatencyTable:
    """A table whose networks deviate from r by `noise`, relatively."""
    sites = made_sites(skeleton, seed)
    generator = np.random.default_rng(seed + 1)

    def time(genotype: Genotype) -> NetworkTime:
        ms = KAPPA * sum(sites[site.key].p50_ms for site in network_sites(skeleton, genotype)) + B_MS
        ms *= 1 + noise * generator.choice([-1.0, 1.0])
        return NetworkTime(genotype=genotype.record(), p50_ms=ms, p95_ms=1.2 * ms, p99_ms=1.6 * ms)

    genotypes = spread_genotypes(skeleton.space, mac_costs(skeleton), 20, seed=9)
    entry = fit_entry(
        skeleton,
        sites,
        [time(genotype) for genotype in genotypes[::2]],
        [time(genotype) for genotype in genotypes[1::2]],
    )
    assert entry.skeleton == asdict(skeleton)
    return LatencyTable(
        space=skeleton.space,
        fingerprint=FINGERPRINT,
        measured="2026-01-01T00:00:00+00:00",
        precisions={"fp32": Column(sentinel_ms=0.2, noise_floor=0.01, sites=sites, skeletons=[entry])},
    )
