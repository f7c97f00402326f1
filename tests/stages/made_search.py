"""What discretize begins with, without a search: alphas, and budgets from the cheapest network to the costliest."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from pipeline.artifacts.alphas import Alphas
from pipeline.budget.targets import make_targets, skeleton_grid
from pipeline.config import Config
from pipeline.config_file import make_config
from pipeline.rundir import RunDir
from pipeline.selection.records import TableState
from pipeline.space.extremes import cheapest_genotype, costliest_genotype
from pipeline.space.skeleton import Skeleton
from pipeline.space.spaces import space_named
from pipeline.stages.context import Context
from pipeline.stages.discretize import Prospect, discretize
from tests.latency.fakes import FINGERPRINT
from tests.selection.fakes import DARTS, FakeDevice, FakePredictor

SKELETON = Skeleton("darts", 3, 8, 16, 10, in_channels=1)


def bounds_ms() -> tuple[float, float]:
    costs = FakePredictor(SKELETON).costs()
    return costs.of(cheapest_genotype(DARTS, costs)), costs.of(costliest_genotype(DARTS, costs))


def budget_at(share: float) -> float:
    low, high = bounds_ms()
    return round(low + share * (high - low), 3)


def make_context(folder: Path, seed: int = 0, **sections: dict[str, Any]) -> Context:
    target = {"cells": 3, "channels": 8, "max_macs": 0, "budget_ms": budget_at(0.25), **sections.pop("target", {})}
    choosing = {"evidence_minutes": 0.0, **sections.pop("discretize", {})}
    config: Config = make_config({"target": target, "discretize": choosing, **sections}, "the test")
    context = Context(config, RunDir(folder, "test"))
    rng = np.random.default_rng(seed)
    space = space_named(config.target.space)
    shapes = [(len(kind.edges), len(kind.operations)) for kind in space.kinds]
    alphas = tuple(torch.from_numpy(rng.normal(size=shape)).float() for shape in shapes)
    context.write(Alphas(space, "off", alphas, tuple(torch.ones(shape) for shape in shapes)))
    return context


def run_with(context: Context, device: FakeDevice, validated: bool = True) -> None:
    grids = context.config.discretize
    skeletons = skeleton_grid(SKELETON, grids.cells_grid, grids.channels_grid)
    targets = make_targets(skeletons, FakePredictor)
    discretize(context, Prospect(targets, TableState(validated), device, FINGERPRINT))
