"""A small convolutional supernet and its two losses, with the dense second derivatives of the inner one."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call

from tests.bilevel.problems import flat, random

DECAY = 0.05


class Mixture(nn.Module):
    """Two convolutions weighted by softmax(alpha), CELU, pooling and a classifier: a supernet in small, smooth."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.alpha = nn.Parameter(random(2, seed=1))
        self.narrow = nn.Conv2d(2, 3, 1)
        self.wide = nn.Conv2d(2, 3, 3, padding=1, bias=False)
        self.head = nn.Linear(3, 4)
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        weights = self.alpha.softmax(0)
        mixed = nn.functional.celu(weights[0] * self.narrow(x) + weights[1] * self.wide(x))
        return self.head(mixed.mean((2, 3)))


NET = Mixture()
NAMES = [name for name, _ in NET.named_parameters() if name != "alpha"]
W = [p for name, p in NET.named_parameters() if name != "alpha"]
ALPHA = [NET.alpha]
TRAIN = (random(6, 2, 4, 4, seed=2), torch.tensor([0, 1, 2, 3, 0, 1]))
VALID = (random(6, 2, 4, 4, seed=3), torch.tensor([3, 2, 1, 0, 3, 2]))


def decay(w: Sequence[Tensor]) -> Tensor:
    return DECAY / 2 * (flat(w) ** 2).sum()


def train_loss(w: Sequence[Tensor], alpha: Sequence[Tensor]) -> Tensor:
    """Closes over the network, as the search does."""
    return nn.functional.cross_entropy(NET(TRAIN[0]), TRAIN[1]) + decay(W)


def valid_loss(w: Sequence[Tensor], alpha: Sequence[Tensor]) -> Tensor:
    """Honours its arguments."""
    logits = functional_call(NET, {**dict(zip(NAMES, w, strict=True)), "alpha": alpha[0]}, (VALID[0],))
    return nn.functional.cross_entropy(logits, VALID[1])


def train_logits(both: Tensor) -> Tensor:
    """The logits of the training batch, as a function of w and alpha in one column."""
    values = dict(zip(NAMES, like_w(both[:-2]), strict=True))
    logits: Tensor = functional_call(NET, {**values, "alpha": both[-2:]}, (TRAIN[0],))
    return logits


def dense() -> tuple[Tensor, Tensor]:
    """H and M from torch.func.hessian of the loss of (w, alpha) as one vector."""

    def loss(both: Tensor) -> Tensor:
        return nn.functional.cross_entropy(train_logits(both), TRAIN[1]) + DECAY / 2 * (both[:-2] ** 2).sum()

    whole = torch.func.hessian(loss)(flat([*W, *ALPHA]).detach())
    return whole[:-2, :-2], whole[-2:, :-2]


def like_w(column: Tensor) -> list[Tensor]:
    parts = column.split([p.numel() for p in W])
    return [part.reshape(p.shape) for part, p in zip(parts, W, strict=True)]


def outer_gradient() -> Tensor:
    return flat(torch.autograd.grad(valid_loss(W, ALPHA), W))
