"""The searches behind benchmarks.tabular: one per method and seed, within CPU minutes, kept on disk.

They run as the product's do: at the defaults, with a latency-scaled softmax and a budget on a device of the table.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch

from pipeline.artifacts.alphas import Alphas, SupernetWeights
from pipeline.artifacts.judged_networks import JudgedNetworks
from pipeline.budget.integer_programme import Scores
from pipeline.budget.limits import Limit
from pipeline.config import ComputeConfig, DataConfig
from pipeline.data import ImageData, load_data
from pipeline.search.architecture import ArchitectureGradient, ArchitectureGradients
from pipeline.search.engine import Search
from pipeline.search.loop import SearchFiles, run_search
from pipeline.search.objective import Constraint
from pipeline.search.pace import affordable_epochs
from pipeline.search_config import SearchConfig
from pipeline.selection.short_training import Material
from pipeline.space.cells import Space
from pipeline.space.genotype import Genotype
from pipeline.space.score import argmax_genotype, relative_prices
from pipeline.space.skeleton import Skeleton
from pipeline.space.supernet import Supernet
from pipeline.whole_files import read_json, write_json

CPU = torch.device("cpu")


class Variant(NamedTuple):
    """How the architecture's gradient is got; `noise` puts random numbers in its place, of the same length."""

    method: str
    inner_steps: int
    terms: int
    paths: str = SearchConfig().paths
    products: str = SearchConfig().products

    @property
    def name(self) -> str:
        return f"{self.method}-T{self.inner_steps}-K{self.terms}-{self.paths}-{self.products}"


NOISE = "noise"
DEFAULT = Variant(SearchConfig().method, SearchConfig().inner_steps, SearchConfig().neumann_terms)
VARIANTS = {
    "default": DEFAULT,
    "mixture": Variant("idarts", 4, 2, "mixture"),
    "first-order": Variant("first-order", DEFAULT.inner_steps, 0),
    "darts": Variant("darts", 1, 0, "mixture"),
    "bvfim": Variant("bvfim", DEFAULT.inner_steps, 0),
    NOISE: DEFAULT._replace(method=NOISE),
}


@dataclass(frozen=True)
class Labor:
    """What a search works with: space, images, the supernet's size, minutes, and a budget on a device."""

    space: Space
    images: DataConfig
    cells: int
    channels: int
    minutes: float
    work: Path
    limit: Limit

    @property
    def skeleton(self) -> Skeleton:
        images = self.images
        return Skeleton(
            self.space.name, self.cells, self.channels, images.resolution, 10, in_channels=images.in_channels
        )

    @property
    def batch_size(self) -> int:
        return SearchConfig().batch_size

    def data(self, seed: int) -> ImageData:
        return load_data(self.images, Path(), seed)

    def material(self, seed: int) -> Material:
        return Material(self.data(seed), self.batch_size, seed, self.images.augment, CPU)


class Found(NamedTuple):
    """What a search found, and what it took."""

    alphas: Alphas
    judged: JudgedNetworks
    genotype: Genotype
    supernet: Supernet
    epochs: int
    minutes: float

    def scores(self) -> Scores:
        pairs = zip(self.alphas.space.kinds, self.alphas.scores(), strict=True)
        return {kind.name: score.double().numpy() for kind, score in pairs}


def run_search_once(labor: Labor, variant: Variant, seed: int) -> Found:
    """The search of one variant and seed: as many epochs as fit into the minutes, measured once and kept."""
    folder = labor.work / f"{variant.name}-{labor.minutes:g}min-{labor.limit.at_most:.4g}ms-seed{seed}"
    alphas, weights, facts = folder / "alphas.safetensors", folder / "weights.safetensors", folder / "facts.json"
    if not facts.is_file():
        plan = folder / "plan.json"
        if not plan.is_file():
            config = _search_config(labor, variant)
            epochs = affordable_epochs(lambda config: _make_search(labor, variant, seed, config), config, labor.minutes)
            write_json(plan, {"epochs": epochs})
        epochs = int(read_json(plan)["epochs"])
        config = _search_config(labor, variant).model_copy(update={"epochs": epochs})
        search = _make_search(labor, variant, seed, config)
        files = SearchFiles(folder / "checkpoint", folder / "history.jsonl", folder / "tensorboard")
        started = time.process_time()
        result = run_search(search, files, f"{labor.minutes}-{epochs}", checkpoint_seconds=60.0)
        constraint = search.constraint
        found = Alphas(
            labor.space, constraint.scale, tuple(result.alphas), constraint.prices, tuple(result.unpenalized)
        )
        found.write(alphas)
        search.judged_networks().write(folder / "judged.safetensors")
        SupernetWeights(search.state.supernet.state_dict()).write(weights)
        minutes = (time.process_time() - started) / 60
        write_json(facts, {"epochs": epochs, "minutes": minutes, "stopped_early": result.stopped_early})
    found, taken = Alphas.read(alphas), read_json(facts)
    judged = JudgedNetworks.read(folder / "judged.safetensors")
    supernet, argmax = SupernetWeights.read(weights).build(labor.skeleton), argmax_genotype(labor.space, found.scores())
    return Found(found, judged, argmax, supernet, int(taken["epochs"]), float(taken["minutes"]))


def _search_config(labor: Labor, variant: Variant) -> SearchConfig:
    chosen: dict[str, Any] = {
        "method": DEFAULT.method if variant.method == NOISE else variant.method,
        "inner_steps": variant.inner_steps,
        "neumann_terms": variant.terms,
        "paths": variant.paths,
        "products": variant.products,
        "cells": labor.cells,
        "channels": labor.channels,
    }
    return SearchConfig(**chosen)


def _make_search(labor: Labor, variant: Variant, seed: int, config: SearchConfig) -> Search:
    costs = labor.limit.costs
    constraint = Constraint(labor.space, (labor.limit,), tuple(relative_prices(labor.space, costs)), config.scale)
    search = Search(config, ComputeConfig(seed=seed), labor.data(seed), labor.skeleton, constraint, CPU)
    if variant.method == NOISE:
        search.gradients = _Noise(search.config, search.losses, search.state.alphas)
    return search


class _Noise(ArchitectureGradients):
    """The null of a search: the loss's part of the gradient is random; the budget penalty stays."""

    def compute(self, *asked: Any, **named: Any) -> ArchitectureGradient:
        found = super().compute(*asked, **named)
        random = [torch.randn_like(part) * part.norm() / part.numel() ** 0.5 for part in found.gradient]
        return found._replace(gradient=random)
