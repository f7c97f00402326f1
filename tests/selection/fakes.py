"""A predictor that is exact by construction, and devices that deviate from it as a test wants."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pipeline.budget.targets import Target, make_targets
from pipeline.latency.budget_rule import Measured
from pipeline.selection.chooser import Chooser
from pipeline.space.costs import Costs, mac_costs
from pipeline.space.genotype import Genotype
from pipeline.space.skeleton import Skeleton
from pipeline.space.spaces import space_named
from tests.selection.spaces import random_scores

DARTS = space_named("darts")
SMALL = Skeleton("darts", 3, 8, 16, 10)
MACS_PER_MS = 1e6


class FakePrediction(NamedTuple):
    ms: float
    low_ms: float
    high_ms: float


class FakePredictor:
    """A million multiply-adds take a millisecond, pooling and skips a little; p95 is 1.25 times p50."""

    def __init__(self, skeleton: Skeleton) -> None:
        macs = mac_costs(skeleton)
        self._costs = Costs(
            macs.fixed / MACS_PER_MS, {name: c / MACS_PER_MS + 0.001 for name, c in macs.choices.items()}
        )

    def predict(self, genotype: Genotype) -> FakePrediction:
        ms = self._costs.of(genotype)
        return FakePrediction(ms, 0.97 * ms, 1.03 * ms)

    def costs(self) -> Costs:
        return self._costs

    least_costs = costs

    def limit_ms(self, budget_ms: float, percentile: int) -> float:
        return budget_ms if percentile == 50 else budget_ms / 1.25


class FakeDevice:
    """Measures p50 = bias(predicted), p95 = 1.25 and p99 = 1.5 times that, with the noise floors given in turn."""

    def __init__(self, bias: Callable[[float], float], floors: list[float] | None = None) -> None:
        self._bias, self._floors = bias, floors or [0.01]
        self.calls: list[Genotype] = []

    def __call__(self, skeleton: Skeleton, genotype: Genotype) -> Measured:
        floor = self._floors[min(len(self.calls), len(self._floors) - 1)]
        self.calls.append(genotype)
        p50 = self._bias(FakePredictor(skeleton).predict(genotype).ms)
        return Measured(p50, 1.25 * p50, 1.5 * p50, floor)


def make_chooser(skeletons: list[Skeleton] | None = None, seed: int = 0, score_share: float = 0.9) -> Chooser:
    scores = random_scores(DARTS, np.random.default_rng(seed), tied=False)
    return Chooser(DARTS, scores, targets(skeletons), score_share)


def targets(skeletons: list[Skeleton] | None = None) -> list[Target]:
    return make_targets(skeletons or [SMALL], FakePredictor)
