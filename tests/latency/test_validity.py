from itertools import combinations

import numpy as np
import pytest

from pipeline.artifacts.latency_table import Validation
from pipeline.errors import UserError
from pipeline.latency.validity import passes_gate, require_valid, scores
from tests.latency.made import made_table


def validation(noise: float) -> Validation:
    found = made_table(noise=noise).column("fp32").skeletons[0].validation
    assert found is not None
    return found


def test_scores_are_their_definitions() -> None:
    generator = np.random.default_rng(0)
    measured = generator.uniform(1, 3, 30)
    predicted = measured * generator.uniform(0.85, 1.15, 30)
    mape, within, tau = scores(predicted, measured)
    assert mape == pytest.approx(np.mean([abs(p - m) / m for p, m in zip(predicted, measured, strict=True)]))
    assert within == np.mean([0.9 <= p / m <= 1.1 for p, m in zip(predicted, measured, strict=True)])
    concordant = [
        np.sign((predicted[i] - predicted[j]) * (measured[i] - measured[j])) for i, j in combinations(range(30), 2)
    ]
    assert tau == pytest.approx(np.mean(concordant))


def test_constant_predictions_have_no_rank_correlation() -> None:
    assert scores(np.ones(5), np.arange(1.0, 6.0))[2] == 0.0


@pytest.mark.parametrize(
    ("mape", "within_10", "tau", "passed"),
    [
        (0.05, 0.95, 0.9, True),
        (0.0501, 0.95, 0.9, False),
        (0.05, 0.9499, 0.9, False),
        (0.05, 0.95, 0.8999, False),
    ],
)
def test_the_gate_has_three_limits(mape: float, within_10: float, tau: float, passed: bool) -> None:
    assert passes_gate(mape, within_10, tau) is passed


def test_a_good_table_passes() -> None:
    found = validation(0.01)
    assert found.passed and found.networks == 10
    assert found.mape_interval[0] <= found.mape <= found.mape_interval[1]
    assert found.kendall_tau_interval[0] <= found.kendall_tau <= found.kendall_tau_interval[1]
    assert require_valid(found, allow_unvalidated=False) is None


def test_a_bad_table_is_refused_unless_allowed() -> None:
    found = validation(0.15)
    assert not found.passed
    with pytest.raises(UserError, match=r"NOT VALID.*--allow-unvalidated"):
        require_valid(found, allow_unvalidated=False)
    warning = require_valid(found, allow_unvalidated=True)
    assert warning is not None and "NOT VALID" in warning


def test_an_unvalidated_table_is_refused_unless_allowed() -> None:
    with pytest.raises(UserError, match="not validated"):
        require_valid(None, allow_unvalidated=False)
    assert require_valid(None, allow_unvalidated=True) == "the latency table is not validated"
