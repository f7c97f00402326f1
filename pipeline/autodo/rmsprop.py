"""RMSprop on the rows that a step touches, with the numbers it would have if it stepped on all of them.

    v ← ρ^Δ v + (1 − ρ) g²,   λ ← λ − rate · g / (√v + ε)

Δ counts the steps since the row was last touched: a row that is left out has a gradient of 0, so that its λ stays and
its v falls by ρ per step.
"""

from typing import Any

import torch
from torch import Tensor

from pipeline.autodo.parameters import Rows

_DECAY = 0.99
_EPSILON = 1e-8


class RowRmsprop:
    """λ of all images, with the state of their optimizer; `touched` is the step that a row was last in, from 1 on."""

    def __init__(self, values: Rows) -> None:
        self.values = values
        self.squares = {name: torch.zeros_like(value) for name, value in values.items()}
        first = next(iter(values.values()))
        self.touched = torch.zeros(len(first), dtype=torch.int64, device=first.device)

    def rows(self, numbers: Tensor) -> Rows:
        """Copies of some rows."""
        return {name: value[numbers] for name, value in self.values.items()}

    def step(self, numbers: Tensor, gradients: Rows, rate: float, step: int) -> None:
        """Step `step` on the rows with these numbers."""
        passed = (step - self.touched[numbers]).double()
        for name, gradient in gradients.items():
            value, squares = self.values[name], self.squares[name]
            faded = torch.pow(_DECAY, passed).to(gradient.dtype).view(-1, *[1] * (gradient.dim() - 1))
            now = faded * squares[numbers] + (1 - _DECAY) * gradient.square()
            squares[numbers] = now
            value[numbers] -= rate * gradient / (now.sqrt() + _EPSILON)
        self.touched[numbers] = step

    def state(self) -> dict[str, Any]:
        return {"values": dict(self.values), "squares": dict(self.squares), "touched": self.touched}

    def load(self, state: dict[str, Any]) -> None:
        for own, saved in ((self.values, state["values"]), (self.squares, state["squares"])):
            for name, value in own.items():
                value.copy_(saved[name])
        self.touched.copy_(state["touched"])
