"""A search whose best architecture is known: one operation per layer lets the label through, by construction.

An image is four textures, one in each quarter: stripes across, stripes along, or a checkerboard. The label is the
texture of one quarter; the others are drawn at random. An operation is a window on one quarter, then a convolution, all
of the same size and cost. Two layers follow each other, so a network can tell the label only if both look at the right
quarter. Margins keep a convolution from seeing past its window. Which quarter it is changes with the seed, and the
second layer lists its windows in another order, so no preference for a name or a place finds it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pipeline.budget.limits import Limit
from pipeline.config import ComputeConfig, DataConfig
from pipeline.data import load_data
from pipeline.search.engine import Search
from pipeline.search.objective import Constraint
from pipeline.search_config import SearchConfig
from pipeline.space import operations, spaces
from pipeline.space.costs import mac_costs
from pipeline.space.extremes import cheapest_genotype, costliest_genotype
from pipeline.space.layers import SITE_STRIDE, Conv, Flow, Free, Normalization, Relu
from pipeline.space.layerwise import Part, Sizes, Stage, layer_space
from pipeline.space.score import relative_prices
from pipeline.space.sites import Site
from pipeline.space.skeleton import Skeleton
from pipeline.space.spaces import space_named

PIXELS, QUARTER, MARGIN = 12, 6, 1
QUARTERS = range(4)
CLASSES = 3


class Pane(nn.Module):
    """The inside of one quarter; 0 elsewhere."""

    def __init__(self, quarter: int) -> None:
        super().__init__()
        self.rows, self.columns = (
            slice(QUARTER * place + MARGIN, QUARTER * (place + 1) - MARGIN) for place in divmod(quarter, 2)
        )

    def forward(self, x: Tensor) -> Tensor:
        seen = torch.zeros_like(x)
        seen[:, :, self.rows, self.columns] = 1.0
        return x * seen


@dataclass(frozen=True)
class Window(Free):
    quarter: int

    def build(self, flow: Flow, site: Site, norm: Normalization, copies: int) -> nn.Module:
        return Pane(self.quarter)


def window(quarter: int, kernel: int = 3) -> str:
    return f"window{quarter}_k{kernel}"


@contextmanager
def planted_space(layers: Sequence[Sequence[str]]) -> Iterator[str]:
    """A space of two layers that choose from the windows named, known by the name that is given for as long."""
    name = "planted:" + "/".join(" ".join(layer) for layer in layers)
    skeleton = Skeleton(name, cells=2, channels=4, resolution=PIXELS, classes=CLASSES, in_channels=1)
    first, later = (tuple(layer) for layer in layers)
    part = Part(skeleton.channels, 1)
    space = layer_space([Stage(2, first, later)], lambda _: Sizes(part, (part,), features=16), skeleton)
    with pytest.MonkeyPatch.context() as patch:
        for quarter in QUARTERS:
            for kernel in (3, 5):
                rows = (Window(quarter), Conv(kernel, stride=SITE_STRIDE, width="out"), Relu())
                patch.setitem(operations._OPERATIONS, window(quarter, kernel), (rows, rows))
        patch.setitem(spaces._SPACES, name, space)
        yield name


def write_images(path: Path, quarter: int, seed: int, count: int = 320) -> None:
    generator = np.random.default_rng(seed)
    textures = generator.integers(CLASSES, size=(count, len(QUARTERS)))
    rows, columns = np.mgrid[0:QUARTER, 0:QUARTER]
    patterns = np.stack([rows % 2, columns % 2, (rows + columns) % 2]) * 120.0
    tiles = patterns[textures].reshape(count, 2, 2, QUARTER, QUARTER)
    images = tiles.transpose(0, 1, 3, 2, 4).reshape(count, PIXELS, PIXELS)
    pixels = (images + generator.normal(60, 20, images.shape)).clip(0, 255).astype(np.uint8)
    labels = textures[:, quarter]
    np.savez(path, x_train=pixels, y_train=labels, x_test=pixels[:30], y_test=labels[:30])


def make_planted_search(
    folder: Path, space: str, quarter: int, seed: int, budget_share: float | None = None, **settings: object
) -> Search:
    """`budget_share` places a limit on multiply-adds between the cheapest and the costliest network."""
    write_images(folder / f"{quarter}_{seed}.npz", quarter, seed)
    data = load_data(DataConfig(format="npz", path=f"{quarter}_{seed}.npz", resolution=PIXELS), folder, seed)
    skeleton = Skeleton(space, cells=2, channels=4, resolution=PIXELS, classes=CLASSES, in_channels=1)
    costs, known = mac_costs(skeleton), space_named(space)
    low, high = (costs.of(find(known, costs)) for find in (cheapest_genotype, costliest_genotype))
    limits = [] if budget_share is None else [Limit("max_macs", costs, low + budget_share * (high - low), "MACs")]
    constraint = Constraint(known, tuple(limits), tuple(relative_prices(known, costs)), "off")
    chosen = {
        "batch_size": 20,
        "epochs": 14,
        "inner_steps": 2,
        "alpha_lr": 0.1,
        "alpha_decay": 0.0,
        "weight_lr": 0.1,
        "paths": "mixture",
        **settings,
    }
    return Search(SearchConfig(**chosen), ComputeConfig(seed=seed), data, skeleton, constraint, torch.device("cpu"))  # type: ignore[arg-type]
