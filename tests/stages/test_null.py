"""Random networks beside the certified one: they keep its budget although predictions are off, or are refused."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pipeline.errors import UserError
from pipeline.latency.budget_rule import Measured
from pipeline.space.genotype import Genotype
from pipeline.space.sampling import random_genotype
from pipeline.stages import null
from pipeline.stages.null import draw_networks
from tests.selection.fakes import FakePredictor
from tests.stages.made_search import SKELETON, budget_at, make_context


def draw(
    folder: Path, monkeypatch: pytest.MonkeyPatch, slower: float, used: float = 0.98
) -> tuple[list[Genotype], list[float]]:
    """Two networks on a machine that takes so much longer than predicted, and all that was measured, in ms.

    The certified network uses such a share of the budget.
    """
    predictor, asked = FakePredictor(SKELETON), list[float]()

    def time_genotypes(genotypes: Sequence[Genotype]) -> list[Measured]:
        taken = [slower * predictor.predict(genotype).ms for genotype in genotypes]
        asked.extend(taken)
        return [Measured(ms, ms, ms, 0.0) for ms in taken]

    monkeypatch.setattr(null, "open_target_table", lambda _: SimpleNamespace(predictor=lambda _: predictor))
    watch: Any = SimpleNamespace(
        skeleton=SKELETON, genotype=random_genotype("darts", np.random.default_rng(0)), time_genotypes=time_genotypes
    )
    budget_ms = budget_at(0.5)
    certificate: Any = SimpleNamespace(percentile=50, budget_ms=budget_ms, certified_ms=used * budget_ms)
    context = make_context(folder, target={"budget_ms": budget_ms})
    return draw_networks(context, watch, certificate, (0, 1)), asked


def test_a_machine_that_is_slower_than_its_table_gets_smaller_networks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, asked = draw(tmp_path, monkeypatch, slower=1.3)
    predictor = FakePredictor(SKELETON)
    assert len(found) == 2 and all(1.3 * predictor.predict(one).ms <= budget_at(0.5) for one in found)
    assert max(asked) > budget_at(0.5), "the first ones did not keep it"


def test_they_are_as_slow_as_a_certified_network_that_leaves_much_of_its_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, asked = draw(tmp_path, monkeypatch, slower=1.0, used=0.7)
    assert min(asked) / budget_at(0.5) > 0.6 and max(asked) <= 1.05 * 0.7 * budget_at(0.5)


def test_where_nothing_fits_it_is_said_how_many_were_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"only 0 of \d+ random networks keep"):
        draw(tmp_path, monkeypatch, slower=50.0)
