"""A network that selection considers."""

from typing import NamedTuple

from pipeline.budget.targets import Interval, Target
from pipeline.space.choices import Choices
from pipeline.space.genotype import Genotype
from pipeline.space.skeleton import Skeleton


class Pick(NamedTuple):
    """A network of a target. `share` is where its score lies between a random cell (0) and the best one (1)."""

    target: Target
    genotype: Genotype
    choices: Choices
    score: float
    share: float
    gap: float
    seconds: float

    @property
    def predicted(self) -> Interval:
        return self.target.predictor.predict(self.genotype)

    @property
    def macs(self) -> int:
        return round(self.target.macs.of(self.genotype))

    @property
    def params(self) -> int:
        return round(self.target.params.of(self.genotype))

    @property
    def identity(self) -> tuple[Skeleton, Choices]:
        """Two picks with the same identity are the same network."""
        return self.target.skeleton, self.choices
