"""Judging networks of a run: its sources, and the evidence of short trainings on its data."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch

from pipeline.artifacts.alphas import Alphas
from pipeline.artifacts.judged_networks import JudgedNetworks
from pipeline.budget.integer_programme import Scores
from pipeline.console import say
from pipeline.data import ImageData
from pipeline.errors import UserError
from pipeline.resumable.checkpoint import hash_of
from pipeline.resumable.history import Entry
from pipeline.resumable.ranks import assist, joined
from pipeline.search.guards import describe_short_search
from pipeline.selection.evidence import Evidence
from pipeline.selection.judged import measure_judged
from pipeline.selection.pool import Pool
from pipeline.selection.short_training import Material, train_shortly, trial_skeleton
from pipeline.selection.sources import Measure, Sources, measure_alpha, measure_size, measure_zero_cost
from pipeline.selection.trials import Ledger, TrainingBudget, gather_evidence, run_trial
from pipeline.space.genotype import Genotype
from pipeline.stages.context import Context

_IMAGES = 32  # that zero-cost proxies look at
_MOST_TRIALS = 200


class Findings(NamedTuple):
    """What a search has found: alpha, and the networks that it judged, if it kept them."""

    alphas: Alphas
    judged: JudgedNetworks | None = None

    @property
    def is_short(self) -> bool:
        """Whether it was too short to be trusted; not known of one by an earlier version."""
        steps = None if self.judged is None else self.judged.steps_per_operation
        return steps is not None and bool(describe_short_search(steps))


def findings_of(context: Context) -> Findings:
    """Those of the run's own search; one of another space is refused."""
    found, wanted = context.read(Alphas), context.config.target.space
    if found.space.name != wanted:
        raise UserError(
            f"{context.run.alphas} is of the space {found.space.name!r}, but [target] space = {wanted!r}; "
            "run `pipeline search` again"
        )
    return Findings(found, context.read(JudgedNetworks) if context.run.judged.is_file() else None)


def alpha_scores(found: Alphas) -> Scores:
    """What the search says of every choice."""
    pairs = zip(found.space.kinds, found.scores(), strict=True)
    return {kind.name: score.double().numpy() for kind, score in pairs}


def make_sources(context: Context, found: Findings | None) -> Sources:
    """Everything that ranks networks of this run: what a search has found, size, what short trainings weigh beside."""
    measures = [*([] if found is None else _measures_of(found)), measure_size(context.target_skeleton)]
    if wants_evidence(context):
        images = next(make_material(context).training()).images[:_IMAGES]
        small, seed = trial_skeleton(context.search_skeleton), context.config.compute.seed
        measures.append(measure_zero_cost(small, images, seed))
    if found is not None and found.is_short and wants_evidence(context):
        say("the search was a short one: what it found must earn its weight on short trainings, like all else")
    return Sources(measures, trusts_search=found is None or not found.is_short)


def _measures_of(found: Findings) -> list[Measure]:
    judged = None if found.judged is None else measure_judged(found.judged)
    return [measure_alpha(alpha_scores(found.alphas)), *([] if judged is None else [judged])]


def make_material(context: Context) -> Material:
    """The search's images at the size of the trials."""
    config, resolution = context.config, trial_skeleton(context.search_skeleton).resolution
    return Material(
        context.data, config.search.batch_size, config.compute.seed, config.data.augment, context.device, resolution
    )


def wants_evidence(context: Context) -> bool:
    """Whether short trainings are asked for."""
    return context.config.discretize.evidence_minutes > 0


def judge(context: Context, pool: Pool, sources: Sources, ledger_path: Path, more_minutes: float = 0.0) -> Evidence:
    """Evidence of as many short trainings as [discretize] evidence_minutes allow; of 0, the search is believed."""
    if not wants_evidence(context):
        return Evidence(sources.names, sources.look([]), [], sources.look(pool.networks).figures)
    settings, material = context.config.discretize, make_material(context)
    minutes = settings.evidence_minutes + more_minutes
    identity = hash_of(
        {
            "skeleton": str(trial_skeleton(context.search_skeleton)),
            "steps": settings.evidence_steps,
            "minutes": minutes,
            "data": context.data.data_hash,
            "batch_size": material.batch_size,
            "augment": material.augment,
            "seed": material.seed,
            "pool": [genotype.record() for genotype in pool.networks],
        }
    )
    ledger = Ledger(ledger_path, identity, _short_training(context, context.device))
    try:
        budget = TrainingBudget(minutes, _MOST_TRIALS)
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
            train = _short_training(context, device)

            def work(genotype: Genotype) -> Entry:
                return run_trial(train, genotype)

            assist(work)


def _short_training(context: Context, device: torch.device) -> Callable[[Genotype], float]:
    skeleton, steps = trial_skeleton(context.search_skeleton), context.config.discretize.evidence_steps
    material = replace(make_material(context), device=device)
    return lambda genotype: train_shortly(skeleton, genotype, material, steps)
