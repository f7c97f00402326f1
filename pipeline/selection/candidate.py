"""A network that selection considers, and what has become known of it."""

from dataclasses import dataclass

from pipeline.budget.targets import Interval, Target
from pipeline.latency.budget_rule import Measured
from pipeline.space.choices import Choices
from pipeline.space.genotype import Genotype
from pipeline.space.skeleton import Skeleton


@dataclass(frozen=True)
class Candidate:
    """A network of a target, from the score that proposed it to what was measured and decided.

    `share` is where its score lies between a random cell (0) and the best one (1); `gap` by how much a better network
    could at most exceed it, `seconds` what solving took. `limit_ms`, `measured` and `fits` are there once it was timed
    against a budget, `verdict` once the budget was decided. `judged` is how good it is taken to be as a whole, where
    that decides; higher is better.
    """

    target: Target
    genotype: Genotype
    choices: Choices
    score: float
    share: float
    gap: float = 0.0
    seconds: float = 0.0
    limit_ms: float | None = None
    measured: Measured | None = None
    fits: bool | None = None
    verdict: str = ""
    judged: float | None = None

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
        """Two candidates with the same identity are the same network."""
        return self.target.skeleton, self.choices

    @property
    def timing(self) -> Measured:
        """What was measured; asked only of candidates that were timed."""
        assert self.measured is not None
        return self.measured
