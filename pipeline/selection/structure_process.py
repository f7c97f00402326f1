"""What a network's structure tells, learned from others: a Gaussian process over counts, depths and common choices.

    f ~ GP(0, smooth · exp(−d²/2) + shared · overlap),     y = f + ε

d² is the mean squared distance of counts and depths, each in units of its spread among the known networks. The two
variances, 0 among them, and that of the noise have the largest marginal likelihood.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from pipeline.space.choices import Choices

Array = NDArray[np.float64]

_VARIANCES = (0.0, 0.1, 0.3, 1.0)
_NOISES = (0.1, 0.2, 0.4, 0.8, 1.2)


class Shapes(NamedTuple):
    """Networks by their structure: counts and depths, and the choices with an effect."""

    counts: Array
    choices: Sequence[Choices]


class Prediction(NamedTuple):
    """Expected values of networks, and their standard deviations."""

    mean: Array
    deviation: Array


@dataclass(frozen=True)
class Kernel:
    """The covariance of f: variance `smooth` over counts and depths, variance `shared` over choices in common."""

    smooth: float
    shared: float

    @property
    def deviation(self) -> float:
        return float(np.sqrt(self.smooth + self.shared))

    def between(self, distances: Array, common: Array) -> Array:
        return self.smooth * np.exp(-distances / 2) + self.shared * common


class StructureProcess:
    """The process given the values of some networks."""

    def __init__(self, known: Shapes, values: Array) -> None:
        self._known = known
        self._middle, self._spread = known.counts.mean(0), known.counts.std(0) + 1e-9
        distances, common = self._apart(known)
        self.kernel, noise = _most_likely(distances, common, values)
        self._factor = cho_factor(self.kernel.between(distances, common) + noise * np.eye(len(values)))
        self._solved = cho_solve(self._factor, values)

    def predict(self, asked: Shapes) -> Prediction:
        near = self.kernel.between(*self._apart(asked))
        left = self.kernel.smooth + self.kernel.shared - (near * cho_solve(self._factor, near.T).T).sum(1)
        return Prediction(near @ self._solved, np.sqrt(np.clip(left, 0.0, None)))

    def _apart(self, asked: Shapes) -> tuple[Array, Array]:
        """Mean squared distances of counts, and shares of common choices, to the known networks."""
        ours, theirs = ((one.counts - self._middle) / self._spread for one in (asked, self._known))
        distances = ((ours[:, None] - theirs[None]) ** 2).mean(-1)
        common = [[overlap(a, b) for b in self._known.choices] for a in asked.choices]
        return distances, np.array(common).reshape(distances.shape)


def overlap(one: Choices, other: Choices) -> float:
    """The share of choices that two networks have in common (Jaccard), from 0 to 1."""
    both = len(one | other)
    return len(one & other) / both if both else 1.0


def _most_likely(distances: Array, common: Array, residuals: Array) -> tuple[Kernel, float]:
    """The variances of f and of the noise under which the residuals are most likely."""
    best, found = -np.inf, (Kernel(0.0, 0.0), 1.0)
    for smooth, shared, noise in product(_VARIANCES, _VARIANCES, _NOISES):
        kernel = Kernel(smooth, shared)
        factor = cho_factor(kernel.between(distances, common) + noise * np.eye(len(residuals)))
        likelihood = -residuals @ cho_solve(factor, residuals) / 2 - np.log(np.diag(factor[0])).sum()
        if likelihood > best:
            best, found = float(likelihood), (kernel, noise)
    return found
