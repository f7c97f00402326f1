"""What the search saw of single networks: a source that ranks networks which it did not see.

At every architecture step a search on sampled networks looks at a group of them, all with the same weights and images.
A regression of their losses, less the group's mean, on the choices, counts and depths of a network averages over
thousands of looks at ever other weights and images, which says far more than many looks at the weights that a search
ends with (RESULTS.md). Unlike α it also learns which inputs of a node are good, how deep a cell should be, and what
depends on what: of a ridge regression and boosted trees, whichever predicts left-out groups better. After few looks
that is the first, after thousands the second.
"""

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pipeline.artifacts.judged_networks import JudgedNetworks
from pipeline.selection.sources import SUPERNET, Measure
from pipeline.selection.structure import counts_and_depths, one_hot
from pipeline.space.choices import without_idle
from pipeline.space.genotype import Genotype

Array = NDArray[np.float64]
_RIDGES = np.logspace(0, 5, 11)
_FEWEST_GROUPS, _FOLDS = 8, 5


def measure_judged(judged: JudgedNetworks) -> Measure | None:
    """The predicted loss with its sign turned; None where a search judged too few networks."""
    if len(judged.groups) < _FEWEST_GROUPS:
        return None
    predictor = LossPredictor(judged)
    return Measure((SUPERNET,), lambda genotype: [-predictor.loss(genotype)])


class LossPredictor:
    """The loss of any network of the space, relative to the mean of random ones."""

    def __init__(self, judged: JudgedNetworks) -> None:
        self._space = judged.space
        losses = np.array(judged.losses)
        described = np.array([self._describe(network) for group in judged.groups for network in group])
        centred = (losses - losses.mean(1, keepdims=True)).ravel()
        self.model = _best_model(described, centred, np.arange(len(losses)).repeat(losses.shape[1]))
        self.model.fit(described, centred)

    def _describe(self, network: Genotype) -> Array:
        bare = without_idle(self._space, network.canonical())
        return np.concatenate([one_hot(self._space, bare), counts_and_depths(bare)])

    def loss(self, network: Genotype) -> float:
        return float(self.model.predict(self._describe(network)[None])[0])


def _best_model(x: Array, y: Array, groups: NDArray[np.intp]) -> RegressorMixin:
    """The regression with the smallest squared error on groups that it was not fitted to."""
    models = [
        make_pipeline(StandardScaler(), RidgeCV(_RIDGES)),
        HistGradientBoostingRegressor(
            max_iter=100, max_depth=3, learning_rate=0.05, early_stopping=False, random_state=0
        ),
    ]

    def score(model: RegressorMixin) -> float:
        folds = GroupKFold(_FOLDS)
        return float(cross_val_score(model, x, y, groups=groups, cv=folds, scoring="neg_mean_squared_error").mean())

    return max(models, key=score)
