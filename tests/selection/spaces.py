"""Small spaces for tests of selection, and random instances on them."""

import numpy as np

from pipeline.budget.limits import Limit
from pipeline.space.cells import CellKind, Space
from pipeline.space.costs import Costs

_OPERATIONS = ("none", "skip", "conv", "pool")


def _unused(*_: object) -> None:
    raise AssertionError("selection does not lay out networks")


def _space(name: str, kinds: list[CellKind]) -> Space:
    return Space(name, tuple(kinds), _unused, _unused, _unused, _unused)  # type: ignore[arg-type]


SMALL_DARTS = _space(
    "small-darts",
    [CellKind(name, _OPERATIONS, 2, 2, 2, False, "concat") for name in ("normal", "reduce")],
)
ONE_KIND = _space("one-kind", [CellKind("cell", _OPERATIONS[:3], 1, 3, 1, False, "concat")])
LAYERS = _space("layers", [CellKind(f"layer{i}", ("a", "b", "c", "d"), 1, 1, None, False, "last") for i in range(5)])


def random_scores(space: Space, rng: np.random.Generator, tied: bool) -> dict[str, np.ndarray]:
    """Scores with −∞ where an operation cannot be chosen; whole numbers, hence ties, if asked."""
    scores = {}
    for kind in space.kinds:
        shape = (len(kind.edges), len(kind.operations))
        values = rng.integers(-2, 3, shape).astype(float) if tied else rng.normal(size=shape)
        banned = [operation not in kind.choosable for operation in kind.operations]
        scores[kind.name] = np.where(banned, -np.inf, values)
    return scores


def random_costs(space: Space, rng: np.random.Generator, size: float) -> Costs:
    return Costs(
        size * float(rng.uniform(0, 2)),
        {kind.name: size * rng.gamma(1.0, size=(len(kind.edges), len(kind.operations))) for kind in space.kinds},
    )


def quantile_limit(name: str, costs: Costs, of_all: np.ndarray, rng: np.random.Generator) -> Limit:
    """A limit somewhere between a little under the cheapest and over the costliest network."""
    low, high = float(of_all.min()), float(of_all.max())
    return Limit(name, costs, low + (high - low) * float(rng.uniform(-0.05, 1.05)), "ms")
