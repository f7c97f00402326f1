"""What a genotype costs: counts, predicted and measured latency."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from pipeline.latency.measure import CAREFUL, Device, Effort, measure_models
from pipeline.latency.models import make_network, make_sentinel
from pipeline.latency.predictor import Prediction, Predictor
from pipeline.space.genotype import Genotype
from pipeline.space.plan import count_macs, count_params
from pipeline.space.skeleton import Skeleton


class Percentiles(NamedTuple):
    """Wall clock of one call."""

    p50: float
    p95: float
    p99: float


@dataclass(frozen=True)
class Inspection:
    """Counts and latency of one network; what was not asked for is None."""

    space: str
    cells: int
    channels: int
    resolution: int
    classes: int
    params: int
    macs: int
    predicted: Prediction | None
    measured_ms: Percentiles | None
    noise_floor: float | None

    def record(self) -> dict[str, Any]:
        """As `pipeline inspect --json` prints it."""
        predicted, measured = self.predicted, self.measured_ms
        return {
            "space": self.space,
            "cells": self.cells,
            "channels": self.channels,
            "resolution": self.resolution,
            "classes": self.classes,
            "params": self.params,
            "macs": self.macs,
            "predicted_ms": None if predicted is None else predicted.ms,
            "predicted_interval_ms": None if predicted is None else [predicted.low_ms, predicted.high_ms],
            "measured_ms": None if measured is None else measured._asdict(),
            "noise_floor": self.noise_floor,
        }


def inspect_genotype(
    skeleton: Skeleton,
    genotype: Genotype,
    predictor: Predictor | None = None,
    device: Device | None = None,
    effort: Effort | None = None,
    progress: Callable[[float], None] | None = None,
) -> Inspection:
    """Count a network; predict its latency with `predictor` and measure it on `device` where they are given."""
    macs, params = count_macs(skeleton, genotype), count_params(skeleton, genotype)
    measured, noise = None, None
    if device is not None:
        result = measure_models(
            device,
            {"network": make_network(device, skeleton, genotype)},
            make_sentinel(device),
            effort or CAREFUL,
            after_round=(lambda _, share: progress(share)) if progress else None,
        )
        timing = result.timings["network"]
        measured, noise = Percentiles(timing.p50_ms, timing.p95_ms, timing.p99_ms), result.noise_floor
    return Inspection(
        space=skeleton.space,
        cells=skeleton.cells,
        channels=skeleton.channels,
        resolution=skeleton.resolution,
        classes=skeleton.classes,
        params=params,
        macs=macs,
        predicted=None if predictor is None else predictor.predict(genotype),
        measured_ms=measured,
        noise_floor=noise,
    )
