"""Targets: the networks of one width and depth with their costs and limits."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple, Protocol

from pipeline.budget.limits import Limit
from pipeline.config import TargetConfig
from pipeline.errors import UserError
from pipeline.space.costs import Costs, mac_costs, param_costs
from pipeline.space.genotype import Genotype
from pipeline.space.skeleton import Skeleton


class Interval(Protocol):
    """A predicted latency and the range it lies in."""

    @property
    def ms(self) -> float: ...
    @property
    def low_ms(self) -> float: ...
    @property
    def high_ms(self) -> float: ...


class Predicts(Protocol):
    """What selection needs of a latency predictor of one skeleton."""

    def predict(self, genotype: Genotype) -> Interval: ...
    def costs(self) -> Costs: ...
    def least_costs(self) -> Costs: ...
    def limit_ms(self, budget_ms: float, percentile: int) -> float: ...


class Demands(NamedTuple):
    """What a network must keep: the percentile of its latency under the budget, and 0 or the largest counts."""

    budget_ms: float
    percentile: int
    max_macs: int = 0
    max_params: int = 0

    @classmethod
    def of(cls, target: TargetConfig, budget_ms: float) -> "Demands":
        """What [target] asks for, with a budget of one's own."""
        return cls(budget_ms, target.percentile, target.max_macs, target.max_params)


@dataclass(frozen=True)
class Target:
    """All networks of one skeleton, and what they cost."""

    skeleton: Skeleton
    predictor: Predicts
    latency: Costs
    macs: Costs
    params: Costs

    def limits(self, demands: Demands, factor: float = 1.0) -> list[Limit]:
        """The limits as the programme takes them; `factor` corrects the predicted limit by what was measured."""
        limit_ms = self.predictor.limit_ms(demands.budget_ms, demands.percentile) * factor
        limits = [Limit("budget_ms", self.latency, limit_ms, "ms")]
        if demands.max_macs:
            limits.append(Limit("max_macs", self.macs, demands.max_macs, "MACs"))
        if demands.max_params:
            limits.append(Limit("max_params", self.params, demands.max_params, "parameters"))
        return limits

    def least_limits(self, demands: Demands) -> list[Limit]:
        """The limits beside the least that a network may take: one that is broken so cannot be kept."""
        budget, *others = self.limits(demands)
        return [budget._replace(costs=self.predictor.least_costs()), *others]


def make_targets(skeletons: Sequence[Skeleton], predictor_of: Callable[[Skeleton], Predicts]) -> list[Target]:
    """The targets of the skeletons, whose costs do not depend on the budget."""
    targets = []
    for skeleton in skeletons:
        predictor = predictor_of(skeleton)
        targets.append(Target(skeleton, predictor, predictor.costs(), mac_costs(skeleton), param_costs(skeleton)))
    return targets


def skeleton_grid(skeleton: Skeleton, cells: Sequence[int], channels: Sequence[int]) -> list[Skeleton]:
    """Every combination of the depths and widths; an empty list stands for the skeleton's own."""
    for name, values in (("cells_grid", cells), ("channels_grid", channels)):
        if len(set(values)) != len(values):
            raise UserError(f"[discretize] {name} = {list(values)} names a size twice")
    depths, widths = sorted(cells) or [skeleton.cells], sorted(channels) or [skeleton.channels]
    return [replace(skeleton, cells=depth, channels=width) for depth, width in product(depths, widths)]
