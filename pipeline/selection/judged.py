"""What the search saw of single networks: a source that ranks networks which it did not see.

At every architecture step a search on sampled networks looks at a group of them, all with the same weights and images.
A ridge regression of their losses, less the group's mean, on the choices, counts and depths of a network averages over
thousands of looks at ever other weights, which says more than one look at the weights that a search ends with. Unlike α
it also learns which inputs of a node are good, and how deep a cell should be.
"""

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import RidgeCV

from pipeline.artifacts.judged_networks import JudgedNetworks
from pipeline.selection.sources import SUPERNET, Measure
from pipeline.selection.structure import counts_and_depths, one_hot
from pipeline.space.choices import without_idle
from pipeline.space.genotype import Genotype

Array = NDArray[np.float64]
_RIDGES = np.logspace(0, 5, 11)
_FEWEST_GROUPS = 8


def measure_judged(judged: JudgedNetworks) -> Measure | None:
    """The predicted loss with its sign turned; None where a search judged too few networks."""
    if len(judged.groups) < _FEWEST_GROUPS:
        return None
    predictor = _Predictor(judged)
    return Measure((SUPERNET,), lambda genotype: [-predictor.loss(genotype)])


class _Predictor:
    def __init__(self, judged: JudgedNetworks) -> None:
        self._space = judged.space
        losses = np.array(judged.losses)
        networks = [network for group in judged.groups for network in group]
        described = np.array([self._describe(network) for network in networks])
        self._middle, self._spread = described.mean(0), described.std(0) + 1e-9
        centred = (losses - losses.mean(1, keepdims=True)).ravel()
        self._ridge = RidgeCV(_RIDGES).fit((described - self._middle) / self._spread, centred)

    def _describe(self, network: Genotype) -> Array:
        bare = without_idle(self._space, network.canonical())
        return np.concatenate([one_hot(self._space, bare), counts_and_depths(bare)])

    def loss(self, network: Genotype) -> float:
        """Relative to the mean of random networks."""
        return float(self._ridge.predict([(self._describe(network) - self._middle) / self._spread])[0])
