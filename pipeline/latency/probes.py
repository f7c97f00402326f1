"""Probes: modules that run a site once or n times, so that the difference is the site and nothing else.

Copy k reads x_k = P_k(x_{k-1}) and is added to the result: y = Σ_k site_k(x_k). The producer P, a depthwise 1×1
convolution, gives every copy an input of its own in the memory layout that convolutions leave behind — as in a cell —
so that the runtime can merge neither the copies nor their layout changes. With t(n) the time of n copies,

    site = (t(n) − t(1)) / (n − 1) − maps · producer,      producer = (t'(n) − t'(1)) / (n − 1)

where t' times chains of producers alone and `maps` is the number of feature maps that the site reads.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from pipeline.artifacts.latency_table import SiteTime
from pipeline.latency.statistics import Timing
from pipeline.space import operations
from pipeline.space.layers import Normalization
from pipeline.space.sites import Site

_JOIN = "concat"


class Span(NamedTuple):
    """A feature map: what a producer makes."""

    channels: int
    resolution: int

    @property
    def key(self) -> str:
        return f"producer/c{self.channels}/r{self.resolution}"


def maps_read(site: Site) -> int:
    """Feature maps that the site takes as separate inputs."""
    return site.channels_out // site.channels_in if site.operation == _JOIN else 1


def span_read(site: Site) -> Span:
    return Span(site.channels_in, site.resolution)


class SiteCopies(nn.Module):
    """n copies of a site, each with an input of its own, added."""

    def __init__(self, site: Site, copies: int) -> None:
        super().__init__()
        self.maps = maps_read(site)
        self.producers = nn.ModuleList(_producer(site.channels_in) for _ in range(copies * self.maps))
        self.sites = nn.ModuleList(operations.build(site, Normalization()) for _ in range(copies))

    def forward(self, x: Tensor) -> Tensor:
        producers = iter(self.producers)
        total: Tensor | None = None
        for module in self.sites:
            inputs = []
            for _ in range(self.maps):
                x = next(producers)(x)
                inputs.append(x)
            y = module(*inputs)
            total = y if total is None else total + y
        assert total is not None
        return total


def _producer(channels: int) -> nn.Module:
    return nn.Conv2d(channels, channels, 1, groups=channels, bias=False)


def probe_name(key: str, copies: int) -> str:
    return f"{key}×{copies}"


def make_probes(sites: Iterable[Site], copies: int) -> dict[str, tuple[nn.Module, Span]]:
    """Every probe that the sites need by name: the module and the feature map it takes."""
    sites = list(sites)
    probes: dict[str, tuple[nn.Module, Span]] = {}
    for span in dict.fromkeys(span_read(site) for site in sites):
        for n in (1, copies):
            chain = nn.Sequential(*(_producer(span.channels) for _ in range(n)))
            probes[probe_name(span.key, n)] = (chain, span)
    for site in sites:
        for n in (1, copies):
            probes[probe_name(site.key, n)] = (SiteCopies(site, n), span_read(site))
    return probes


def example_input(span: Span, batch: int) -> Tensor:
    return torch.rand(batch, span.channels, span.resolution, span.resolution)


def site_times(sites: Iterable[Site], copies: int, timings: Mapping[str, Timing]) -> dict[str, SiteTime]:
    """The time of every site by key, from the timings of its probes; never below zero."""

    def per_copy(key: str) -> SiteTime:
        one, many = timings[probe_name(key, 1)], timings[probe_name(key, copies)]
        spread = float(np.hypot(one.iqr_ms, many.iqr_ms))
        return SiteTime(
            p50_ms=max(0.0, (many.steady_ms - one.steady_ms) / (copies - 1)),
            spread_ms=spread / (copies - 1),
            count=min(one.count, many.count),
        )

    times = {}
    for site in sites:
        whole, producer = per_copy(site.key), per_copy(span_read(site).key)
        p50_ms = max(0.0, whole.p50_ms - maps_read(site) * producer.p50_ms)
        times[site.key] = SiteTime(p50_ms=p50_ms, spread_ms=whole.spread_ms, count=whole.count)
    return times
