"""What AutoDO refuses, with the figures and the setting to change."""

from typing import Any

import pytest

from pipeline.autodo.conditions import check_memory, check_settings, count_bytes
from pipeline.autodo_config import AutodoConfig
from pipeline.config import RetrainConfig
from pipeline.errors import UserError


@pytest.mark.parametrize(
    ("autodo", "retrain", "match"),
    [
        ({}, {}, "neither of .* guide and guide_share"),
        ({"guide": "good", "guide_share": 0.1}, {}, "both of .* guide and guide_share"),
        ({"guide": "good", "start_epoch": 60}, {"epochs": 60}, "start_epoch = 60 leaves nothing of 60"),
        ({"guide": "good"}, {"mixup": 0.2}, r"\[retrain\] mixup = 0.2"),
        ({"guide": "good"}, {"cutmix": 1.0}, r"\[retrain\] cutmix = 1"),
        ({"guide": "good"}, {"label_smoothing": 0.1}, r"\[retrain\] label_smoothing = 0.1"),
    ],
)
def test_settings_that_cannot_work_are_refused(autodo: dict[str, Any], retrain: dict[str, Any], match: str) -> None:
    with pytest.raises(UserError, match=match) as caught:
        check_settings(AutodoConfig(learn="weights+labels", **autodo), RetrainConfig(**retrain))
    assert caught.value.exit_code == 2


def test_what_works_is_let_through() -> None:
    check_settings(AutodoConfig(learn="weights", guide="good", start_epoch=59), RetrainConfig(epochs=60))


def test_a_million_images_of_a_thousand_classes_are_refused_with_the_figures() -> None:
    config = AutodoConfig(learn="weights+labels", guide="good")
    with pytest.raises(UserError, match=r"8\.03 GB \(8,028,000,000 bytes\) for 1,000,000 images and 1,000 classes"):
        check_memory(config, 1_000_000, 1000, with_holdout=False)
    assert check_memory(config, 1_000_000, 10, with_holdout=True) == 1_000_000 * (3 * 4 * 11 + 20)
    assert check_memory(config.model_copy(update={"learn": "weights"}), 1_000_000, 1000, False) == 28_000_000
    learns_all = config.model_copy(update={"learn": "weights+labels+augmentation"})
    assert count_bytes(learns_all, 1000, 10, True) == 1000 * (3 * 4 * (1 + 10 + 14) + 20)
    assert count_bytes(config, 10, 10, False) == 10 * (2 * 4 * 11 + 20)
