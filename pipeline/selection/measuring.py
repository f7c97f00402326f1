"""Timing the networks that selection considers, on the target device beside the sentinel."""

from collections.abc import Callable

import torch

from pipeline.latency.measure import CAREFUL, Device, Effort, measure_models
from pipeline.latency.measured import Measured
from pipeline.latency.models import make_network, make_sentinel
from pipeline.space.genotype import Genotype
from pipeline.space.skeleton import Skeleton


class NetworkTimer:
    """Builds networks with random weights and times them; `sentinel_ms` is how fast this machine can be, if known."""

    def __init__(self, device: Device, sentinel_ms: float | None = None, effort: Effort = CAREFUL) -> None:
        self._device, self._sentinel_ms, self._effort = device, sentinel_ms, effort
        self._sentinel = make_sentinel(device)

    def time(
        self, skeleton: Skeleton, genotype: Genotype, progress: Callable[[float], None] = lambda _: None
    ) -> Measured:
        """The latency of one network; `progress` is told the share that is done."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = make_network(self._device, skeleton, genotype)
        measured = measure_models(
            self._device,
            {"network": model},
            self._sentinel,
            self._effort,
            after_round=lambda _, share: progress(share),
        )
        timing = measured.timings["network"]
        noise = measured.noise_beside(self._sentinel_ms)
        return Measured(timing.p50_ms, timing.p95_ms, timing.p99_ms, noise)
