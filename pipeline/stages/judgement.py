"""Judging networks of a run: its sources, and the evidence of short trainings on its data."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from pipeline.console import say
from pipeline.data import ImageData
from pipeline.resumable.checkpoint import hash_of
from pipeline.resumable.history import Entry
from pipeline.resumable.ranks import assist, joined
from pipeline.selection.evidence import Evidence
from pipeline.selection.judged import measure_judged
from pipeline.selection.pool import Pool
from pipeline.selection.short_training import Material, train_shortly, trial_skeleton
from pipeline.selection.sources import (
    Measure,
    Sources,
    measure_alpha,
    measure_size,
    measure_zero_cost,
    proxy_skeleton,
)
from pipeline.selection.trials import Ledger, TrainingBudget, gather_evidence, run_trial
from pipeline.space.genotype import Genotype
from pipeline.space.skeleton import Skeleton
from pipeline.space.supernet import Supernet
from pipeline.stages.context import Context
from pipeline.stages.findings import Findings, Start, alpha_scores, findings_of
from pipeline.stages.threads import worthwhile_threads
from pipeline.whole_files import sha256_of

_IMAGES = 32  # that zero-cost proxies look at
_MOST_TRIALS = 200


def make_sources(context: Context, found: Findings | None) -> Sources:
    """Everything that ranks networks of this run: what a search has found, size, and zero-cost proxies."""
    target, seed = context.target_skeleton, context.config.compute.seed
    layout = proxy_skeleton(context.search_skeleton, target)
    images = next(make_material(context, layout).training()).images[:_IMAGES]
    measures = [measure_size(target), *measure_zero_cost(layout, images, seed)]
    if found is not None and found.is_short:
        say(
            "the search was a short one: what it found is not trusted, and must earn its weight on short trainings"
            if wants_evidence(context)
            else "the search was a short one: what it found has no say"
        )
    return Sources(
        [*([] if found is None else _measures_of(found)), *measures],
        trusts_search=found is not None and not found.is_short,
    )


def _measures_of(found: Findings) -> list[Measure]:
    judged = None if found.judged is None else measure_judged(found.judged)
    return [measure_alpha(found.alphas.space, alpha_scores(found.alphas)), *([] if judged is None else [judged])]


def make_material(context: Context, skeleton: Skeleton) -> Material:
    """The search's images at the size that networks of this layout see."""
    config = context.config
    return Material(
        context.data,
        config.search.batch_size,
        config.compute.seed,
        config.data.augment,
        context.device,
        skeleton.resolution,
    )


def wants_evidence(context: Context) -> bool:
    """Whether short trainings are asked for."""
    return context.config.discretize.evidence_minutes > 0


class ShortTraining(NamedTuple):
    """How networks are trained shortly: in which layout, on which images, and from which weights."""

    skeleton: Skeleton
    material: Material
    steps: int
    supernet: Supernet | None
    supernet_sha256: str

    def loss_of(self, genotype: Genotype) -> float:
        """The validation loss that a network ends with."""
        return train_shortly(self.skeleton, genotype, self.material, self.steps, self.supernet)

    def identity(self) -> dict[str, Any]:
        """Everything that a loss depends on beside the genotype."""
        material = self.material
        return {
            "skeleton": str(self.skeleton),
            "steps": self.steps,
            "data": material.data.data_hash,
            "batch_size": material.batch_size,
            "augment": material.augment,
            "seed": material.seed,
            "supernet": self.supernet_sha256,
        }


def make_training(context: Context, start: Start | None, device: torch.device) -> ShortTraining:
    """In the layout of the supernet that has the weights; without one in a small layout, as many say more than few."""
    skeleton = trial_skeleton(context.search_skeleton) if start is None else start.skeleton
    material, steps = replace(make_material(context, skeleton), device=device), context.config.discretize.evidence_steps
    if start is None:
        return ShortTraining(skeleton, material, steps, None, "")
    return ShortTraining(skeleton, material, steps, start.build(), sha256_of(start.weights))


def judge(
    context: Context,
    pool: Pool,
    sources: Sources,
    ledger_path: Path,
    start: Start | None,
) -> Evidence:
    """Evidence of as many short trainings as [discretize] evidence_minutes allow; of none, trust alone."""
    if not wants_evidence(context):
        return Evidence(sources.names, sources.look([]), [], sources.look(pool.networks), sources.trusts_search)
    training = make_training(context, start, context.device)
    minutes = context.config.discretize.evidence_minutes
    if training.supernet is not None:
        say("short trainings begin with the weights that networks have in the search's supernet")
    networks = [genotype.record() for genotype in pool.networks]
    identity = hash_of({**training.identity(), "minutes": minutes, "pool": networks})
    ledger = Ledger(ledger_path, identity, training.loss_of)
    try:
        budget = TrainingBudget(minutes, _MOST_TRIALS)
        with worthwhile_threads(context, training.skeleton):
            return gather_evidence(pool, sources, ledger, budget, guessing_loss(context.data))
    finally:
        ledger.close()


def guessing_loss(data: ImageData) -> float:
    """The cross-entropy of a network that says of every image what it says of any other."""
    return math.log(data.classes)


def assist_judgement(context: Context) -> None:
    """What a process beside the first does in a selection: its share of the short trainings, if there are any."""
    if wants_evidence(context) and context.config.discretize.rule == "best":
        with joined(context.device) as device:
            training = make_training(context, findings_of(context).start, device)

            def work(genotype: Genotype) -> Entry:
                return run_trial(training.loss_of, genotype)

            with worthwhile_threads(context, training.skeleton):
                assist(work)
