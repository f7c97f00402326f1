"""What a network's structure tells, learned from others: a Gaussian process over counts, depths and common choices.

    f ~ GP(0, smooth · exp(−d²/2) + shared · overlap),     y = f + ε

d² is the mean squared distance of counts and depths, each in units of its spread among the known networks. The two
variances, 0 among them, and that of the noise are not known, and few networks do not tell them: predictions are the
mean over all of a grid, by their marginal likelihood (search-decisions.md has what the likeliest alone would do).
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
_LEAST_SHARE = 1e-3  # of the likeliest's likelihood, below which a process is left out


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


class Fit(NamedTuple):
    """A process with given variances: its share of the likelihood, and the known values as it sees them."""

    kernel: Kernel
    share: float
    factor: tuple[Array, bool]
    solved: Array

    def predict(self, near: Array) -> Prediction:
        """Mean and deviation of f where `near` is the covariance with the known networks."""
        left = self.kernel.smooth + self.kernel.shared - (near * cho_solve(self.factor, near.T).T).sum(1)
        return Prediction(near @ self.solved, np.sqrt(np.clip(left, 0.0, None)))


class StructureProcess:
    """The process given the values of some networks."""

    def __init__(self, known: Shapes, values: Array) -> None:
        self._known = known
        self._middle, self._spread = known.counts.mean(0), known.counts.std(0) + 1e-9
        self.fits = _fit_all(*self._apart(known), values)

    @property
    def deviation(self) -> float:
        """How far f spreads over networks, as far as the values tell."""
        return sum(fit.share * fit.kernel.deviation for fit in self.fits)

    def predict(self, asked: Shapes) -> Prediction:
        """Mean and deviation of a mixture of normal distributions."""
        apart = self._apart(asked)
        found = [fit.predict(fit.kernel.between(*apart)) for fit in self.fits]
        shares, means = np.array([fit.share for fit in self.fits]), np.array([one.mean for one in found])
        mean = shares @ means
        spread = shares @ (means**2 + np.array([one.deviation for one in found]) ** 2) - mean**2
        return Prediction(mean, np.sqrt(np.clip(spread, 0.0, None)))

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


def _fit_all(distances: Array, common: Array, values: Array) -> list[Fit]:
    """The processes of all variances that are likely enough to count."""
    kernels, factors, likelihoods = [], [], []
    for smooth, shared, noise in product(_VARIANCES, _VARIANCES, _NOISES):
        kernel = Kernel(smooth, shared)
        factor = cho_factor(kernel.between(distances, common) + noise * np.eye(len(values)))
        kernels.append(kernel)
        factors.append(factor)
        likelihoods.append(-values @ cho_solve(factor, values) / 2 - np.log(np.diag(factor[0])).sum())
    shares = np.exp(np.array(likelihoods) - max(likelihoods))
    kept = np.flatnonzero(shares >= _LEAST_SHARE)
    return [
        Fit(kernels[i], float(shares[i] / shares[kept].sum()), factors[i], cho_solve(factors[i], values)) for i in kept
    ]
