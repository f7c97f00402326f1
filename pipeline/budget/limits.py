"""Limits: what a network may cost in milliseconds, multiply-adds and parameters."""

from typing import NamedTuple

from pipeline.space.costs import Costs

# Sums of the same costs in another order differ in the last digits.
_ROUNDING = 1e-9


class Limit(NamedTuple):
    """costs.of(network) ≤ at_most; `name` is the setting it comes from."""

    name: str
    costs: Costs
    at_most: float
    unit: str

    def allows(self, cost: float) -> bool:
        return cost <= self.at_most + _ROUNDING * abs(self.at_most)

    def show(self, amount: float) -> str:
        """An amount of this resource for a person."""
        if self.unit == "ms":
            return f"{amount:.3g} ms" if amount < 1 else f"{amount:.2f} ms"
        return f"{amount / 1e6:.2f} M {self.unit}"
