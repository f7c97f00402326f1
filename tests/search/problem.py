"""A search small enough for tests: random images, one narrow cell of each kind."""

from pathlib import Path

import numpy as np
import torch

from pipeline.budget.limits import Limit
from pipeline.config import ComputeConfig, DataConfig
from pipeline.data import load_data
from pipeline.search.engine import Search
from pipeline.search.loop import SearchFiles
from pipeline.search.objective import Constraint
from pipeline.search_config import SearchConfig
from pipeline.space.costs import mac_costs
from pipeline.space.score import relative_prices
from pipeline.space.skeleton import Skeleton
from pipeline.space.spaces import space_named

SEARCH = Skeleton("nasbench201", cells=3, channels=2, resolution=8, classes=3, in_channels=1)
TARGET = Skeleton("nasbench201", cells=3, channels=8, resolution=8, classes=3, in_channels=1)


def write_images(path: Path, per_class: int = 40) -> None:
    """Three classes of stripes that a convolution can tell apart, with noise."""
    generator = np.random.default_rng(0)
    labels = np.arange(3 * per_class) % 3
    rows, columns = np.mgrid[0:8, 0:8]
    patterns = np.stack([rows % 2, columns % 2, (rows + columns) % 2]) * 160.0
    images = patterns[labels] + generator.normal(40, 20, (len(labels), 8, 8))
    pixels = images.clip(0, 255).astype(np.uint8)
    np.savez(path, x_train=pixels, y_train=labels, x_test=pixels[:30], y_test=labels[:30])


def make_search(
    folder: Path,
    share: float = 0.5,
    seed: int = 0,
    skeleton: Skeleton = SEARCH,
    target: Skeleton = TARGET,
    **settings: object,
) -> Search:
    """`share` places the limit between the cheapest and the costliest network."""
    if not (folder / "data.npz").exists():
        write_images(folder / "data.npz")
    space, costs = space_named(target.space), mac_costs(target)
    costliest = sum(float(cost.max(1).sum()) for cost in costs.choices.values())
    limit = Limit("max_macs", costs, costs.fixed + share * costliest, "MACs")
    constraint = Constraint(space, (limit,), tuple(relative_prices(space, costs)), "shifted")
    data = load_data(DataConfig(format="npz", path="data.npz", resolution=8), folder, seed)
    chosen = {"batch_size": 12, "epochs": 3, "inner_steps": 2, "neumann_terms": 1, "alpha_lr": 0.05, "paths": "mixture"}
    compute = ComputeConfig(seed=seed)
    return Search(SearchConfig(**chosen | settings), compute, data, skeleton, constraint, torch.device("cpu"))  # type: ignore[arg-type]


def finish(search: Search) -> list[torch.Tensor]:
    """Advance to the end: α, and α without the penalty."""
    while not search.finished:
        search.advance()
    return [alpha.detach().clone() for alpha in [*search.state.alphas, *search.state.unpenalized]]


def files(folder: Path) -> SearchFiles:
    return SearchFiles(folder / "checkpoint", folder / "history.jsonl", folder / "tensorboard")
