"""Measures against scikit-learn's, and the calibration error against its definition."""

import numpy as np
import pytest
import torch
from sklearn.metrics import confusion_matrix, log_loss, recall_score, top_k_accuracy_score
from torch import nn

from pipeline.data.normalization import Normalization
from pipeline.training.measures import Predictions, measure, predict, wilson_interval
from tests.training.material import CPU, digits


def random_predictions(images: int = 400, classes: int = 8) -> Predictions:
    random = np.random.default_rng(1)
    labels = random.integers(0, classes, images)
    logits = random.normal(size=(images, classes)) * 2
    logits[np.arange(images), labels] += 1.5
    return Predictions(torch.from_numpy(logits), torch.from_numpy(labels))


def test_accuracy_and_confusion_are_those_of_scikit_learn() -> None:
    found, (logits, labels) = random_predictions(), random_predictions()
    measures, answers = measure(found), logits.argmax(1).numpy()
    names = np.arange(8)
    assert measures.top1 == pytest.approx(float((answers == labels.numpy()).mean()))
    assert measures.top5 == pytest.approx(top_k_accuracy_score(labels.numpy(), logits.numpy(), k=5, labels=names))
    assert np.array_equal(measures.confusion, confusion_matrix(labels.numpy(), answers, labels=names))
    assert measures.per_class == pytest.approx(recall_score(labels.numpy(), answers, average=None))
    assert measures.loss == pytest.approx(log_loss(labels.numpy(), logits.softmax(1).numpy(), labels=names))


def test_calibration_error_by_hand() -> None:
    def logit(p: float) -> list[float]:
        return [float(np.log(p / (1 - p))), 0.0]

    logits = torch.tensor([logit(0.9), logit(0.9), logit(0.6), logit(0.6), logit(0.6)], dtype=torch.float64)
    measures = measure(Predictions(logits, torch.tensor([0, 0, 0, 1, 1])))
    assert measures.calibration_error == pytest.approx(2 / 5 * (1 - 0.9) + 3 / 5 * (0.6 - 1 / 3))
    assert [(b.images, round(b.confidence, 9)) for b in measures.calibration] == [(3, 0.6), (2, 0.9)]
    assert measures.top5 == 1.0  # with two classes


def test_a_class_without_images_has_no_accuracy() -> None:
    measures = measure(Predictions(torch.eye(3)[[0, 0, 1]], torch.tensor([0, 0, 1])))
    record = measures.record(("a", "b$", "c$"))
    assert [row["accuracy"] for row in record["per_class"]] == [1.0, 1.0, None]
    assert record["test_accuracy"] == 1.0


@pytest.mark.parametrize(("share", "count"), [(0.9, 40), (1.0, 25), (0.0, 10), (0.5, 1000)])
def test_the_interval_of_a_share_solves_its_equation(share: float, count: int) -> None:
    """Wilson's limits p are where |share − p| = z √(p (1 − p) / count)."""
    for limit in wilson_interval(share, count):
        assert abs(share - limit) == pytest.approx(1.959964 * np.sqrt(limit * (1 - limit) / count), abs=1e-9)


def test_predict_sees_every_image_once_in_order_and_normalized() -> None:
    data = digits()
    network = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, 10))
    found = predict(network, data.test, Normalization([0.25], [0.5], CPU, channels_last=True))
    assert network.training
    images, labels = zip(*(data.test[i] for i in range(len(data.test))), strict=True)
    pixels = torch.stack(images).float() / 255
    with torch.no_grad():
        wanted = network.eval()((pixels - 0.25) / 0.5)
    assert torch.allclose(found.logits, wanted, atol=1e-5)
    assert found.labels.tolist() == list(labels)
