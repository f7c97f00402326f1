"""A search finds an architecture that was planted, by any gradient and by no noise; and it keeps to a budget."""

from pathlib import Path
from typing import Any

import pytest
import torch

from pipeline.search.engine import Search
from tests.search.planted import QUARTERS, make_planted_search, planted_space, window

SEEDS = range(10)
SAME_COST = [[window(q) for q in QUARTERS], [window(q) for q in (2, 0, 3, 1)]]


def finish(search: Search) -> list[str]:
    """The strongest operation of every layer at the end."""
    while not search.finished:
        search.advance()
    kinds = search.constraint.space.kinds
    return [kind.operations[int(a.argmax())] for kind, a in zip(kinds, search.state.alphas, strict=True)]


def replace_gradient_by_noise(search: Search, seed: int) -> None:
    generator, real = torch.Generator().manual_seed(seed), search.gradients.compute

    def noise(*arguments: Any) -> Any:
        found = real(*arguments)
        return found._replace(gradient=[torch.randn(part.shape, generator=generator) for part in found.gradient])

    search.gradients.compute = noise  # type: ignore[method-assign, assignment]


def count_found(folder: Path, noise: bool = False, **settings: Any) -> int:
    found = 0
    for seed in SEEDS:
        quarter = seed % len(QUARTERS)
        with planted_space(SAME_COST) as space:
            search = make_planted_search(folder, space, quarter, seed, **settings)
            if noise:
                replace_gradient_by_noise(search, seed)
            found += finish(search) == [window(quarter)] * 2
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [{"method": "idarts"}, {"method": "darts"}, {"method": "first-order"}, {"method": "idarts", "paths": "fair"}],
    ids=repr,
)
def test_the_planted_operations_are_found(settings: dict[str, Any], tmp_path: Path) -> None:
    assert count_found(tmp_path, **settings) >= 9


@pytest.mark.slow
def test_noise_does_not_find_them(tmp_path: Path) -> None:
    """By chance it has both layers right once in sixteen."""
    assert count_found(tmp_path, noise=True, method="first-order") <= 3


@pytest.mark.parametrize("penalty", [1.0, 0.0])
def test_the_penalty_keeps_the_expected_cost_within_a_budget_that_binds(penalty: float, tmp_path: Path) -> None:
    """The planted windows cost 25/9 of the others; a quarter of the way up there is no room for one of them.

    Without a penalty the search goes for them, so the budget binds; with one it ends within the budget.
    """
    layers = [[window(q, 5 if q == 0 else 3) for q in QUARTERS]] * 2
    settings = {"method": "first-order", "inner_steps": 1, "penalty": penalty}
    with planted_space(layers) as space:
        search = make_planted_search(tmp_path, space, quarter=0, seed=0, budget_share=0.25, **settings)
        finish(search)
    with torch.no_grad():
        expected, limit = float(search.constraint.expected(search.state.alphas)[0]), search.constraint.limits[0].at_most
    assert (expected <= 1.01 * limit) if penalty else (expected > 1.2 * limit)
