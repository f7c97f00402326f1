"""Losses of the plain epochs: a network learns what is common first, so the loss of a wrong label stays high."""

from typing import Any

import torch
from torch import Tensor


class EarlyLosses:
    """The mean over the plain epochs of every image's cross entropy with its given label, and the last answers.

    `guide_top1` is the share of the guide that is answered right by then: how far the answers can be believed.
    """

    def __init__(self, images: int, device: torch.device) -> None:
        self._sum = torch.zeros(images, device=device)
        self._passes = 0
        self.guide_top1 = 0.0
        self.answers = torch.zeros(images, dtype=torch.int64, device=device)

    def observe(self, losses: Tensor, answers: Tensor, guide_top1: float) -> None:
        """The losses of all images after a plain epoch, and the classes that the network takes them for."""
        self._sum += losses
        self._passes += 1
        self.answers.copy_(answers)
        self.guide_top1 = guide_top1

    @property
    def mean(self) -> Tensor:
        return self._sum / max(self._passes, 1)

    def state(self) -> dict[str, Any]:
        return {"sum": self._sum, "passes": self._passes, "answers": self.answers, "guide_top1": self.guide_top1}

    def load(self, state: dict[str, Any]) -> None:
        self._sum.copy_(state["sum"])
        self.answers.copy_(state["answers"])
        self._passes, self.guide_top1 = state["passes"], state["guide_top1"]
