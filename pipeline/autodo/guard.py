"""A stop for what is learned about the images, where it harms: λ goes back to its best and stays there."""

from dataclasses import dataclass, field
from typing import Any

from pipeline.autodo.parameters import Rows

_FALL = 0.02  # of the holdout accuracy below that at the start
_PATIENCE = 3  # epochs in a row


@dataclass
class Guard:
    """Holdout accuracies since λ started to move, and the λ of the best of them."""

    start: float = -1.0
    best: float = -1.0
    falls: int = 0
    frozen: bool = False
    values: Rows = field(default_factory=dict, repr=False)

    def judge(self, top1: float, values: Rows) -> bool:
        """Whether λ must be frozen now, which puts the best `values` back; the first call is the start."""
        if self.frozen:
            return False
        if self.start < 0:
            self.start = top1
        if top1 > self.best:
            self.best, self.values = top1, {name: value.clone() for name, value in values.items()}
        self.falls = self.falls + 1 if top1 < self.start - _FALL else 0
        self.frozen = self.falls >= _PATIENCE
        if self.frozen:
            for name, value in values.items():
                value.copy_(self.values[name])
        return self.frozen

    def state(self) -> dict[str, Any]:
        return {**vars(self), "values": dict(self.values)}

    def load(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
