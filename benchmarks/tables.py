"""Spaces whose accuracies are all known: their networks, devices to run on, and look-ups in place of measurements."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.budget.targets import Predicts
from pipeline.latency.budget_rule import Measured
from pipeline.space.cells import Space
from pipeline.space.costs import Costs
from pipeline.space.genotype import Genotype
from pipeline.space.skeleton import Skeleton
from pipeline.space.spaces import space_named

MAX_LOOKUPS = 10

Array = NDArray[np.float64]


class Predicted(NamedTuple):
    """A predicted latency and the range it lies in."""

    ms: float
    low_ms: float
    high_ms: float


class FittedDevice(NamedTuple):
    """A device that is known as a sum over choices, off by the share `error` at most."""

    fitted: Costs
    error: float

    def predict(self, genotype: Genotype) -> Predicted:
        ms = self.fitted.of(genotype)
        return Predicted(ms, ms * (1 - self.error), ms * (1 + self.error))

    def costs(self) -> Costs:
        return self.fitted

    def least_costs(self) -> Costs:
        return self.fitted

    def limit_ms(self, budget_ms: float, percentile: int) -> float:
        return budget_ms


class Device(NamedTuple):
    """What every network takes on one device, how that is predicted, and the budgets asked there."""

    name: str
    latencies: Array
    predictor: Predicts
    budgets_ms: Sequence[float]


class Table(NamedTuple):
    """All networks of a space, what they reach, and on which devices they are wanted."""

    target: Skeleton
    networks: Sequence[Genotype]
    accuracy: Array
    devices: Sequence[Device]

    @property
    def space(self) -> Space:
        return space_named(self.target.space)


class Lookups:
    """The certificate's measurements, from the table; at most MAX_LOOKUPS different networks."""

    def __init__(self, places: dict[str, int], latencies: Array) -> None:
        self._places, self._latencies, self.asked = places, latencies, dict[int, float]()

    def measure(self, skeleton: Skeleton, genotype: Genotype) -> Measured:
        place = self._places[name_of(genotype)]
        if place not in self.asked and len(self.asked) >= MAX_LOOKUPS:
            return Measured(np.inf, np.inf, np.inf, 0.0)  # no more look-ups: it does not count as fitting
        ms = self.asked.setdefault(place, float(self._latencies[place]))
        return Measured(ms, ms, ms, 0.0)


def name_of(genotype: Genotype) -> str:
    """The same for genotypes of one network."""
    return str(genotype.canonical().record())
