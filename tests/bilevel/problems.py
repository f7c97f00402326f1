"""Bilevel problems whose every derivative is written down: the oracles of these tests, in float64."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

DOUBLE = torch.float64


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, dtype=DOUBLE, generator=torch.Generator().manual_seed(seed))


def spd(n: int, seed: int, low: float = 0.5, high: float = 3.0) -> Tensor:
    """A symmetric matrix with eigenvalues evenly spread over [low, high]."""
    basis, _ = torch.linalg.qr(random(n, n, seed=seed))
    return basis @ torch.diag(torch.linspace(low, high, n, dtype=DOUBLE)) @ basis.T


def flat(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([x.reshape(-1) for x in tensors])


def pieces(column: Tensor, *sizes: int) -> list[Tensor]:
    """The column as leaves that require a gradient; the first as a matrix of one row, to have two shapes."""
    ends = [0, *torch.tensor(sizes).cumsum(0).tolist()]
    parts = [column[a:b].detach().clone() for a, b in pairwise(ends)]
    parts[0] = parts[0].reshape(1, -1)
    return [x.requires_grad_() for x in parts]


@dataclass
class Quadratic:
    """L1 = w.Aw/2 - w.B alpha and L2 = w.Qw/2 + q.w + alpha.Dw + alpha.E alpha/2 + c.alpha.

    So H = A, M = -B^T, dL2/dw = Qw + q + D^T alpha, dL2/dalpha = Dw + E alpha + c and w* = A^-1 B alpha.
    """

    a: Tensor
    seed: int = 0
    m: int = 4

    def __post_init__(self) -> None:
        n, m, seed = len(self.a), self.m, self.seed
        self.b, self.d = random(n, m, seed=seed + 1), random(m, n, seed=seed + 2)
        self.q_matrix, self.e = spd(n, seed + 3), spd(m, seed + 4)
        self.q, self.c = random(n, seed=seed + 5), random(m, seed=seed + 6)
        self.alpha = pieces(random(m, seed=seed + 7), m - 1, 1) if m > 1 else pieces(random(m, seed=seed + 7), 1)
        self.w = self.weights(random(n, seed=seed + 8))

    def weights(self, column: Tensor) -> list[Tensor]:
        n = len(column)
        return pieces(column, n - n // 2, n // 2) if n > 1 else pieces(column, n)

    def inner(self, w: Sequence[Tensor], alpha: Sequence[Tensor]) -> Tensor:
        x = flat(w)
        return x @ self.a @ x / 2 - x @ self.b @ flat(alpha)

    def outer(self, w: Sequence[Tensor], alpha: Sequence[Tensor]) -> Tensor:
        x, y = flat(w), flat(alpha)
        return x @ self.q_matrix @ x / 2 + self.q @ x + y @ self.d @ x + y @ self.e @ y / 2 + self.c @ y

    def solution(self) -> Tensor:
        return torch.linalg.solve(self.a, self.b @ flat(self.alpha).detach())

    def v(self, x: Tensor) -> Tensor:
        """dL2/dw at x"""
        return self.q_matrix @ x + self.q + self.d.T @ flat(self.alpha).detach()

    def direct(self, x: Tensor) -> Tensor:
        return self.d @ x + self.e @ flat(self.alpha).detach() + self.c

    @property
    def point(self) -> Tensor:
        return flat(self.w).detach()


@dataclass
class Ridge:
    """L1 = |Xw - y|^2/2 + sum_i exp(alpha_i) w_i^2/2 and L2 = |X'w - y'|^2/2 + sum_i alpha_i^2 w_i, at w*.

    So H = X^T X + diag(e^alpha), M = diag(e^alpha w), dL2/dw = X'^T (X'w - y') + alpha^2, dL2/dalpha = 2 alpha w.
    """

    seed: int = 0
    n: int = 6

    def __post_init__(self) -> None:
        seed, n = self.seed, self.n
        self.x, self.y = random(2 * n, n, seed=seed) / n**0.5, random(2 * n, seed=seed + 1)
        self.x_val, self.y_val = random(n, n, seed=seed + 2) / n**0.5, random(n, seed=seed + 3)
        self.alpha = pieces(random(n, seed=seed + 4), 2, n - 2)
        self.decay = flat(self.alpha).detach().exp()
        self.hessian = self.x.T @ self.x + self.decay.diag()
        self.point = torch.linalg.solve(self.hessian, self.x.T @ self.y)
        self.w = pieces(self.point, n - 1, 1)
        self.v = self.x_val.T @ (self.x_val @ self.point - self.y_val) + flat(self.alpha).detach() ** 2
        self.direct = 2 * flat(self.alpha).detach() * self.point
        self.mixed = (self.decay * self.point).diag()

    def inner(self, w: Sequence[Tensor], alpha: Sequence[Tensor]) -> Tensor:
        x = flat(w)
        return ((self.x @ x - self.y) ** 2).sum() / 2 + (flat(alpha).exp() * x**2).sum() / 2

    def outer(self, w: Sequence[Tensor], alpha: Sequence[Tensor]) -> Tensor:
        x = flat(w)
        return ((self.x_val @ x - self.y_val) ** 2).sum() / 2 + (flat(alpha) ** 2 * x).sum()


class Curved:
    """Losses none of whose derivatives is constant: log cosh and a decay exp(alpha_i) per weight, sines and cubes."""

    def __init__(self, seed: int = 0, n: int = 5) -> None:
        self.x, self.y = random(2 * n, n, seed=seed), random(2 * n, seed=seed + 1)
        self.alpha = pieces(0.3 * random(n, seed=seed + 2), 2, n - 2)
        self.w = pieces(random(n, seed=seed + 3), n - 2, 2)

    def inner(self, w: Sequence[Tensor], alpha: Sequence[Tensor]) -> Tensor:
        x = flat(w)
        return (self.x @ x - self.y).cosh().log().sum() / len(self.y) + (flat(alpha).exp() * x**2).sum() / 2

    def outer(self, w: Sequence[Tensor], alpha: Sequence[Tensor]) -> Tensor:
        x, y = flat(w), flat(alpha)
        return (x.sin() ** 2).sum() + (x * y.sin()).sum() + (y**3).sum()

    def hessian(self) -> Tensor:
        """d2L1/dw dw at w, dense."""
        alpha = [a.detach() for a in self.alpha]
        return torch.func.hessian(lambda x: self.inner([x], alpha))(flat(self.w).detach())

    def mixed(self) -> Tensor:
        """d2L1/dalpha dw at w, dense: diag(e^alpha w)."""
        return (flat(self.alpha).exp() * flat(self.w)).detach().diag()
