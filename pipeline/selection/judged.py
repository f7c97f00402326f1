"""What the search saw of single networks: a source that ranks networks which it did not see.

At every architecture step a search on sampled networks looks at a group of them, all with the same weights and images.
A regression of ln loss, less the group's mean, on the choices, counts and depths of a network averages over thousands
of looks at ever other weights and images, which says far more than many looks at the weights that a search ends with
(search-decisions.md). Unlike α it also learns which inputs of a node are good, how deep a cell should be, and what
depends on what. It is the mean of a ridge regression, which tells good networks apart, and of boosted trees, which know
those that are bad for a reason that no sum shows.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor, VotingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pipeline.artifacts.judged_networks import JudgedNetworks
from pipeline.selection.sources import SUPERNET, Measure
from pipeline.selection.structure import counts_and_depths, one_hot
from pipeline.space.choices import without_idle
from pipeline.space.genotype import Genotype

Array = NDArray[np.float64]
_RIDGES = np.logspace(0, 5, 11)
_FEWEST_GROUPS, _LEAST_LOSS = 8, 1e-6
_TREES: dict[str, Any] = {
    "max_iter": 100,
    "max_depth": 3,
    "learning_rate": 0.05,
    "early_stopping": False,
    "random_state": 0,
}


def measure_judged(judged: JudgedNetworks) -> Measure | None:
    """The predicted loss with its sign turned; None where a search judged too few networks."""
    if len(judged.groups) < _FEWEST_GROUPS:
        return None
    predictor = LossPredictor(judged)
    return Measure((SUPERNET,), lambda genotype: [-predictor.loss(genotype)])


class LossPredictor:
    """ln loss of any network of the space, less that of random ones."""

    def __init__(self, judged: JudgedNetworks) -> None:
        self._space = judged.space
        losses = np.log(np.maximum(judged.losses, _LEAST_LOSS))
        described = np.array([self._describe(network) for group in judged.groups for network in group])
        self.model = VotingRegressor(
            [
                ("ridge", make_pipeline(StandardScaler(), RidgeCV(_RIDGES))),
                ("trees", HistGradientBoostingRegressor(**_TREES)),
            ]
        ).fit(described, (losses - losses.mean(1, keepdims=True)).ravel())

    def _describe(self, network: Genotype) -> Array:
        bare = without_idle(self._space, network.canonical())
        return np.concatenate([one_hot(self._space, bare), counts_and_depths(bare)])

    def loss(self, network: Genotype) -> float:
        return float(self.model.predict(self._describe(network)[None])[0])
