"""The searches behind benchmarks.nasbench201: one per method and seed, within a time limit, kept on disk."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.nasbench201_tables import SPACE
from pipeline.artifacts.alphas import Alphas
from pipeline.budget.integer_programme import Scores
from pipeline.budget.limits import Limit
from pipeline.config import ComputeConfig, DataConfig, SearchConfig
from pipeline.data import ImageData, load_data
from pipeline.rundir import read_json, write_json
from pipeline.search.engine import Search
from pipeline.search.loop import SearchFiles, run_search
from pipeline.search.objective import Constraint
from pipeline.search.preview import preview_search
from pipeline.selection.short_training import Material
from pipeline.space.costs import mac_costs
from pipeline.space.extremes import costliest_genotype
from pipeline.space.genotype import Genotype
from pipeline.space.score import argmax_genotype, relative_prices
from pipeline.space.skeleton import Skeleton

CPU = torch.device("cpu")


class Variant(NamedTuple):
    """A row of the paper's Table 3."""

    method: str
    inner_steps: int
    terms: int
    products: str = "finite_difference"

    @property
    def name(self) -> str:
        return f"{self.method}-T{self.inner_steps}-K{self.terms}-{self.products}"


DEFAULT = Variant("idarts", 4, 2)
METHODS = (
    Variant("darts", 1, 0),
    Variant("idarts", 1, 1),
    Variant("idarts", 4, 0),
    Variant("idarts", 4, 1),
    DEFAULT,
    Variant("idarts", 4, 3),
    Variant("idarts", 4, 2, "exact"),
)


@dataclass(frozen=True)
class Labor:
    """What a search works with: images, the supernet's size, and minutes."""

    images: Path
    cells: int
    channels: int
    batch_size: int
    minutes: float
    work: Path

    @property
    def skeleton(self) -> Skeleton:
        return Skeleton(SPACE.name, self.cells, self.channels, 32, 10)

    def data(self, seed: int) -> ImageData:
        config = DataConfig(format="npz", path=str(self.images), resolution=32, colour=True, augment="crop-flip")
        return load_data(config, self.images.parent, seed)

    def material(self, seed: int) -> Material:
        return Material(self.data(seed), self.batch_size, seed, "crop-flip", CPU)


class Found(NamedTuple):
    """What a search found, and what it took."""

    alphas: Alphas
    genotype: Genotype
    epochs: int
    margin: float

    def scores(self) -> Scores:
        pairs = zip(SPACE.kinds, self.alphas.scores(), strict=True)
        return {kind.name: score.double().numpy() for kind, score in pairs}


def run_search_once(labor: Labor, variant: Variant, seed: int, alpha_lr: float) -> Found:
    """The search of one row and seed: as many epochs as fit into the minutes, measured once and kept."""
    folder = labor.work / f"{variant.name}-{labor.cells}x{labor.channels}-seed{seed}"
    alphas, facts = folder / "alphas.safetensors", folder / "facts.json"
    if not facts.is_file():
        plan = folder / "plan.json"
        if not plan.is_file():
            write_json(plan, {"epochs": _affordable_epochs(labor, variant, seed, alpha_lr)})
        epochs = int(read_json(plan)["epochs"])
        search = _make_search(labor, variant, seed, alpha_lr, epochs)
        files = SearchFiles(folder / "checkpoint", folder / "history.jsonl", folder / "tensorboard")
        result = run_search(search, files, f"{labor.minutes}-{alpha_lr}-{epochs}", checkpoint_seconds=60.0)
        constraint = search.constraint
        Alphas(SPACE, constraint.scale, tuple(result.alphas), constraint.prices).write(alphas)
        write_json(facts, {"epochs": epochs, "stopped_early": result.stopped_early})
    found = Alphas.read(alphas)
    top = found.weights()[0].topk(2, dim=-1).values
    return Found(
        found,
        argmax_genotype(SPACE, found.scores()),
        int(read_json(facts)["epochs"]),
        float((top[:, 0] - top[:, 1]).mean()),
    )


def _settings(labor: Labor, variant: Variant, alpha_lr: float, epochs: int) -> SearchConfig:
    chosen: dict[str, Any] = {
        "method": variant.method,
        "inner_steps": variant.inner_steps,
        "neumann_terms": variant.terms,
        "products": variant.products,
        "cells": labor.cells,
        "channels": labor.channels,
        "batch_size": labor.batch_size,
        "epochs": epochs,
        "alpha_lr": alpha_lr,
        "scale": "off",
    }
    return SearchConfig(**chosen)


def _make_search(labor: Labor, variant: Variant, seed: int, alpha_lr: float, epochs: int) -> Search:
    """Without a budget: the limit is the costliest cell."""
    costs = mac_costs(labor.skeleton)
    limit = Limit("max_macs", costs, costs.of(costliest_genotype(SPACE, costs)), "MACs")
    constraint = Constraint(SPACE, (limit,), tuple(relative_prices(SPACE, costs)), "off")
    settings = _settings(labor, variant, alpha_lr, epochs)
    return Search(settings, ComputeConfig(seed=seed), labor.data(seed), labor.skeleton, constraint, CPU)


def _affordable_epochs(labor: Labor, variant: Variant, seed: int, alpha_lr: float) -> int:
    epoch_s = preview_search(_make_search(labor, variant, seed, alpha_lr, 1)).eta_s
    return max(1, math.floor(60 * labor.minutes / epoch_s))
