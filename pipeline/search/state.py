"""Everything a search carries from step to step, and how it is saved."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from pipeline.search_config import SearchConfig
from pipeline.space.supernet import Supernet

_MOMENTUM = 0.9
_ALPHA_BETAS = (0.5, 0.999)
_ALPHA_SPREAD = 1e-3
# A step of Adam is about its rate: over a search α may move by the first of these, and never faster than the second.
_ALPHA_TRAVEL, _LARGEST_ALPHA_LR = 3.0, 0.1


@dataclass
class Best:
    """The architecture with the lowest penalized validation loss at the end of an epoch."""

    log_objective: float
    epoch: int
    alphas: list[Tensor]
    unpenalized: list[Tensor]


@dataclass
class SearchState:
    """Weights, architecture, their optimizers, the penalty and the position in the data."""

    supernet: Supernet
    alphas: list[Tensor]
    unpenalized: list[Tensor]
    """α as it would be without the budget penalty: the same steps, less the penalty's part. α itself learns what is
    cheap as much as what is good; a selection under a hard limit wants the second alone."""
    weight_optimizer: torch.optim.SGD
    alpha_optimizer: torch.optim.Adam
    penalty: float
    step: int = 0
    alpha_step: int = 0
    first_order_fallbacks: int = 0
    collapsed_epochs: int = 0
    best: Best | None = None
    losses: list[float] = field(default_factory=list)
    """Training losses since the last architecture step."""
    network_losses: list[list[float]] = field(default_factory=list)
    """Validation losses of the networks of every group that an architecture step went by."""
    round_losses: list[list[float]] = field(default_factory=list)
    """The same of groups since the last architecture step."""

    def copy_unpenalized(self) -> list[Tensor]:
        return [plain.clone() for plain in self.unpenalized]

    def add_loss(self, loss: float) -> None:
        self.losses.append(loss)

    def keep_round(self) -> None:
        """The groups of a round have served their step."""
        self.network_losses += self.round_losses
        self.round_losses = []

    def take_mean_loss(self) -> float:
        """The mean of the losses since it was last taken."""
        mean = sum(self.losses) / len(self.losses)
        self.losses.clear()
        return mean

    def record(self) -> dict[str, Any]:
        """The state as plain containers and tensors."""
        return {
            "supernet": self.supernet.state_dict(),
            "alphas": [alpha.detach().clone() for alpha in self.alphas],
            "unpenalized": self.copy_unpenalized(),
            "weight_optimizer": self.weight_optimizer.state_dict(),
            "alpha_optimizer": self.alpha_optimizer.state_dict(),
            "penalty": self.penalty,
            "step": self.step,
            "alpha_step": self.alpha_step,
            "first_order_fallbacks": self.first_order_fallbacks,
            "collapsed_epochs": self.collapsed_epochs,
            "losses": list(self.losses),
            "network_losses": torch.tensor(self.network_losses),
            "round_losses": torch.tensor(self.round_losses),
            "best": None
            if self.best is None
            else {
                "log_objective": self.best.log_objective,
                "epoch": self.best.epoch,
                "alphas": self.best.alphas,
                "unpenalized": self.best.unpenalized,
            },
        }

    def restore(self, record: dict[str, Any]) -> None:
        """Continue from a saved state."""
        self.supernet.load_state_dict(record["supernet"])
        with torch.no_grad():
            for group in ("alphas", "unpenalized"):
                for alpha, saved in zip(getattr(self, group), record[group], strict=True):
                    alpha.copy_(saved)
        self.weight_optimizer.load_state_dict(record["weight_optimizer"])
        self.alpha_optimizer.load_state_dict(record["alpha_optimizer"])
        self.penalty, self.step, self.alpha_step = record["penalty"], record["step"], record["alpha_step"]
        self.first_order_fallbacks = record["first_order_fallbacks"]
        self.collapsed_epochs, self.losses = record["collapsed_epochs"], list(record["losses"])
        self.network_losses, self.round_losses = record["network_losses"].tolist(), record["round_losses"].tolist()
        self.best = None if record["best"] is None else Best(**record["best"])


def start_state(config: SearchConfig, supernet: Supernet, seed: int, alpha_steps: int) -> SearchState:
    """The state before the first step: an architecture that has hardly an opinion, and `alpha_steps` to form one."""
    device = next(supernet.parameters()).device
    generator = torch.Generator().manual_seed(seed)
    alphas = [
        (_ALPHA_SPREAD * torch.randn(len(kind.edges), len(kind.operations), generator=generator)).to(device)
        for kind in supernet.space.kinds
    ]
    unpenalized = [alpha.clone() for alpha in alphas]
    for alpha in alphas:
        alpha.requires_grad_()
    weights = torch.optim.SGD(
        supernet.parameters(),
        lr=config.weight_lr,
        momentum=_MOMENTUM,
        nesterov=True,
        weight_decay=config.weight_decay,
    )
    rate = config.alpha_lr or min(_ALPHA_TRAVEL / max(alpha_steps, 1), _LARGEST_ALPHA_LR)
    architecture = torch.optim.Adam(
        [*alphas, *unpenalized], lr=rate, betas=_ALPHA_BETAS, weight_decay=config.alpha_decay
    )
    return SearchState(supernet, alphas, unpenalized, weights, architecture, config.penalty)
