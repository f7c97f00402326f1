"""The linear probe against scikit-learn's ridge regression on the same pixels."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifier

from pipeline.training.linear_probe import _RIDGE, evenly_spaced, probe_accuracy
from tests.training.material import digits


def test_it_is_right_as_often_as_ridge_regression() -> None:
    data = digits()
    train, judged = data.train, data.validation
    x, other = (part.images.take(part.indices).flatten(1).double().numpy() / 255 for part in (train, judged))
    mean, std = x.mean(0), np.maximum(x.std(0, ddof=1), 1e-6)
    model = RidgeClassifier(alpha=_RIDGE * len(x)).fit((x - mean) / std, train.targets[train.indices].numpy())
    wanted = model.score((other - mean) / std, judged.targets[judged.indices].numpy())
    assert probe_accuracy(train, judged) == pytest.approx(wanted, abs=0.01)
    assert wanted > 0.9


def test_labels_without_a_meaning_are_guessed() -> None:
    data = digits()
    shuffled = data.train.targets[np.random.default_rng(0).permutation(len(data.train.targets))]
    train, judged = (replace(part, targets=shuffled) for part in (data.train, data.validation))
    assert probe_accuracy(train, judged) < 0.2


def test_many_images_are_thinned_evenly() -> None:
    images = digits().train
    assert len(evenly_spaced(images, 100)) <= 100 and len(evenly_spaced(images, 10**6)) == len(images)
