"""The constrained objective (eq. 11 of the constrained formulation, made free of units).

    L_val(w, α) · exp(λ · Σ_i ReLU(r_i(α) / T_i − 1))

r_i is the expected cost of the discretized target network in resource i (milliseconds, multiply-adds, parameters), T_i
its limit. λ rises while a limit is missed and falls when all are kept; the gradient flows through both factors.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pipeline.budget.expected_cost import expected_cost
from pipeline.budget.limits import Limit
from pipeline.space.cells import Space
from pipeline.space.score import Scale

# λ starts at the configured value and stays within these factors of it.
_PENALTY_FLOOR, _PENALTY_CEILING = 1e-2, 1e4


@dataclass(frozen=True)
class Constraint:
    """The limits on the target network, seen from the architecture parameters."""

    space: Space
    limits: tuple[Limit, ...]
    prices: tuple[Tensor, ...]
    scale: Scale

    def expected(self, alphas: Sequence[Tensor]) -> list[Tensor]:
        """r_i(α), one per limit."""
        return [expected_cost(self.space, limit.costs, alphas) for limit in self.limits]

    def overshoot(self, alphas: Sequence[Tensor]) -> Tensor:
        """Σ_i ReLU(r_i / T_i − 1): 0 exactly when every limit is kept."""
        shares = [r / limit.at_most - 1 for r, limit in zip(self.expected(alphas), self.limits, strict=True)]
        return torch.stack(shares).relu().sum() if shares else alphas[0].new_zeros(())

    def penalize(self, loss: Tensor, alphas: Sequence[Tensor], penalty: float) -> Tensor:
        """loss · exp(λ · overshoot), with the present value of the second factor divided out.

        The value is the loss and the gradient ∇loss + loss · λ · ∇overshoot: the direction of eq. 11. Its length would
        grow like e^λ, overflow, and stay in Adam's memory long after the budget is met.
        """
        exponent = penalty * self.overshoot(alphas)
        return loss * (exponent - exponent.detach()).exp()

    def log_objective(self, loss: float, alphas: Sequence[Tensor], penalty: float) -> float:
        """ln of eq. 11, by which architectures are compared."""
        with torch.no_grad():
            return math.log(loss) + penalty * float(self.overshoot(alphas))


def adapt_penalty(penalty: float, missed: bool, rate: float, start: float) -> float:
    """λ a step later: larger by `rate` while a limit is missed, smaller when all are kept."""
    moved = penalty * (1 + rate) if missed else penalty / (1 + rate)
    return min(max(moved, start * _PENALTY_FLOOR), start * _PENALTY_CEILING)
