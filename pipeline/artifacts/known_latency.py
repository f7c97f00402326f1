"""A latency in a certificate or a model card: what it is, how it came to be known, and how well."""

from typing import Literal, Self

from pydantic import model_validator

from pipeline.artifacts.document import Part, Percentiles
from pipeline.artifacts.fields import NonNegative, Number

MEASURED: Literal["measured on the target"] = "measured on the target"
BEFORE_TRAINING: Literal["measured on the target before training"] = "measured on the target before training"
PREDICTED: Literal["predicted, not measured on the target"] = "predicted, not measured on the target"
Basis = Literal[
    "measured on the target", "measured on the target before training", "predicted, not measured on the target"
]


class KnownLatency(Part):
    """Measured on the target, or expected of it by its own table where nobody could measure there.

    The noise floor and the intervals are those of the percentile that was asked; `within_noise` marks a latency that
    another look may well find over the budget.
    """

    basis: Basis = MEASURED
    measured_ms: Percentiles | None
    measured_interval_ms: tuple[Number, Number] | None = None
    expected_ms: Percentiles | None = None
    expected_interval_ms: tuple[Number, Number] | None = None
    noise_floor: NonNegative | None
    within_noise: bool = False

    @model_validator(mode="after")
    def _is_known_in_one_way(self) -> Self:
        predicted = self.basis == PREDICTED
        if predicted != (self.measured_ms is None) or predicted != (self.expected_ms is not None):
            raise ValueError(f"a latency that is {self.basis} has other fields")
        return self

    @property
    def latency_ms(self) -> Percentiles:
        """The percentiles, however they are known."""
        known = self.measured_ms or self.expected_ms
        assert known is not None  # see _is_known_in_one_way
        return known

    @property
    def latency_interval_ms(self) -> tuple[float, float] | None:
        return self.measured_interval_ms or self.expected_interval_ms

    @property
    def shown_noise(self) -> str:
        """The noise floor as console and page show it."""
        return "–" if self.noise_floor is None else f"{self.noise_floor:.1%}"
