"""What a `--method` means, how many weight steps its rounds have, and when its solve has missed."""

from typing import Any

import pytest

from pipeline.bilevel import ConjugateGradient, Diagnostics, Method, Neumann, ReverseMode, ValueFunction
from pipeline.search.methods import inner_steps, make_method, misses_solution
from pipeline.search_config import SearchConfig


@pytest.mark.parametrize("products", ["exact", "finite_difference", "gauss_newton"])
def test_products_reach_the_methods_that_have_them(products: str) -> None:
    def made(method: str) -> Method:
        return make_method(SearchConfig(method=method, products=products), 0.02)  # type: ignore[arg-type]

    assert made("idarts") == Neumann(0.02, 2, products, step=0.1)  # type: ignore[arg-type]
    assert made("darts") == ReverseMode(0.02, 1, products, step=0.1, difference="central")  # type: ignore[arg-type]
    solver = "gauss_newton" if products == "gauss_newton" else "exact"
    assert made("cg") == ConjugateGradient(3, 1e-3, 50.0, solver)  # type: ignore[arg-type]


BARRIER = ValueFunction(0.1, 1, tau=1.0, theta=0.0, mu1=0.0, mu2=1.0)


@pytest.mark.parametrize(
    ("method", "residual", "missed"),
    [
        (Neumann(0.1, 2), 0.999, False),
        (Neumann(0.1, 2), 1.0, True),
        (ConjugateGradient(2), 1.5, True),
        (ConjugateGradient(2), None, False),
        (BARRIER, 1.5, False),  # its residual is that of a descent
    ],
    ids=repr,
)
def test_a_residual_of_one_is_that_of_no_solution(method: Method, residual: float | None, missed: bool) -> None:
    assert misses_solution(method, Diagnostics(direct_norm=1.0, indirect_norm=1.0, residual=residual)) == missed


@pytest.mark.parametrize(
    ("settings", "steps", "expected"),
    [({}, 10_000, 64), ({}, 320, 16), ({}, 7, 1), ({"inner_steps": 5}, 7, 5), ({"method": "darts"}, 10_000, 1)],
)
def test_a_short_search_has_shorter_rounds(settings: dict[str, Any], steps: int, expected: int) -> None:
    assert inner_steps(SearchConfig(**settings), steps) == expected
