"""discretize: the best cell that fits, measured before it is trained."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import NamedTuple

from pipeline.budget.integer_programme import Scores
from pipeline.budget.limits import Limit
from pipeline.budget.targets import Demands, Target, make_targets
from pipeline.console import is_follower, progress_bar, say, show
from pipeline.errors import Interrupted, PromiseBroken
from pipeline.fingerprint import Fingerprint
from pipeline.report.selection import remarks, show_evidence, summarize
from pipeline.resumable.checkpoint import hash_of
from pipeline.resumable.ranks import assisted
from pipeline.selection.budgets import Outcome, Rules, order_budgets, pick_outcome, sweep_budgets
from pipeline.selection.certification import Measure
from pipeline.selection.chooser import Chooser
from pipeline.selection.job import Job
from pipeline.selection.measurements import Measurements
from pipeline.selection.pool import Pool, feasible_networks
from pipeline.selection.records import Circumstances, TableState
from pipeline.selection.verdict import Exploration, Verdict, conclude
from pipeline.space.cells import Space
from pipeline.space.choices import Choices, choices_of
from pipeline.space.genotype import Genotype
from pipeline.space.score import argmax_genotype
from pipeline.stages.context import Context
from pipeline.stages.findings import Findings, alpha_scores, findings_of
from pipeline.stages.judgement import assist_judgement, judge, make_sources, wants_evidence
from pipeline.stages.tables import open_target_table, skeletons_of
from pipeline.whole_files import sha256_of

_POOL = 96  # networks that are considered before any is trained

Select = Callable[[Job, float], Outcome]


class Prospect(NamedTuple):
    """The sizes that can be built with what the table predicts of them, and how networks are measured here."""

    targets: Sequence[Target]
    table: TableState
    measure: Measure
    device: Fingerprint
    sentinel_ms: float | None = None


def run(context: Context) -> None:
    """Write a genotype, how it was selected and its certificate, for every budget asked.

    All ranks of a launcher share out the short trainings; all else is done by one, on a machine that is quiet again.
    """
    if is_follower():
        assist_judgement(context)
        return
    prospect, target = open_prospect(context), context.config.target
    path = context.run.checkpoints("discretize") / "measured.jsonl"
    identity = hash_of([prospect.device.record(), prospect.sentinel_ms])
    measure = Measurements(prospect.measure, path, identity, target.percentile, target.max_noise_floor)
    try:
        discretize(context, prospect._replace(measure=measure))
    except KeyboardInterrupt:
        raise Interrupted(
            "interrupted: the short trainings and measurements made so far are saved; run the same command to go on"
        ) from None
    except PromiseBroken:
        shutil.rmtree(path.parent, ignore_errors=True)  # not an interruption: there is nothing to go on with
        raise


def discretize(context: Context, prospect: Prospect, select: Select = Job.select) -> None:
    """The stage, wherever predictions and measurements come from."""
    target, folder, budgets_ms = context.config.target, context.run.genotype.parent, budgets_of(context)
    job = make_job(context, prospect, findings_of(context), budgets_ms)
    sweep = sweep_budgets(budgets_ms, lambda budget_ms: select(job, budget_ms))
    outcome = pick_outcome(sweep, target.budget_ms)
    job.write_all(folder, sweep, outcome)
    show(summarize(sweep, job.argmax_beside(outcome), outcome.demands.budget_ms))
    for line in remarks(sweep, outcome, prospect.table):
        say(line)


def budgets_of(context: Context) -> list[float]:
    """Every budget asked, in rising order."""
    return order_budgets(context.config.discretize.budgets_ms or [context.config.target.budget_ms], say)


def make_job(context: Context, prospect: Prospect, findings: Findings, budgets_ms: Sequence[float]) -> Job:
    settings, target, found = context.config.discretize, context.config.target, findings.alphas
    verdict = _weigh_evidence(context, prospect, findings, budgets_ms) if settings.rule == "best" else None
    chooser_scores = alpha_scores(found) if verdict is None else verdict.scores
    argmax = argmax_genotype(found.space, found.scores())
    rules = Rules(settings.max_rounds, target.max_noise_floor)
    if verdict is not None:
        rules = rules._replace(evolution=verdict.evolution, starts=(choices_of(found.space, argmax),))
    return Job(
        chooser=Chooser(found.space, chooser_scores, prospect.targets, settings.score_share),
        argmax=argmax,
        measure=prospect.measure,
        rules=rules,
        limits=target,
        circumstances=Circumstances(
            settings.rule,
            prospect.device,
            prospect.table,
            sha256_of(context.run.alphas),
            prospect.sentinel_ms,
            () if verdict is None else verdict.standings,
        ),
    )


def _weigh_evidence(
    context: Context, prospect: Prospect, findings: Findings, budgets_ms: Sequence[float]
) -> Verdict | None:
    """What the search and short trainings say of networks that may fit; None when nothing fits, or alpha is all."""
    if findings.judged is None and not wants_evidence(context):
        return None  # alpha is a sum over choices, whose best the integer programme finds
    seed, sources = context.config.compute.seed, make_sources(context, findings)
    pool = _make_pool(context, prospect, findings.alphas.space, alpha_scores(findings.alphas), budgets_ms)
    if not pool.networks:
        return None
    with assisted(context.device) if wants_evidence(context) else nullcontext():
        evidence = judge(context, pool, sources, context.run.evidence, findings.start)
    exploration = Exploration(context.config.discretize.evaluations, seed, _with_bar)
    verdict = conclude(evidence, sources, pool, exploration)
    if verdict.standings:
        show(show_evidence(verdict.standings))
    return verdict


def _make_pool(context: Context, prospect: Prospect, space: Space, scores: Scores, budgets_ms: Sequence[float]) -> Pool:
    """The search's own choice for every budget, and networks unlike each other that keep it."""
    chooser, seed = Chooser(space, scores, prospect.targets, 0.0), context.config.compute.seed
    found, limits = list[Genotype](), list[Limit]()
    for budget_ms in budgets_ms:
        demands = Demands.of(context.config.target, budget_ms)
        best = chooser.choose(demands)
        if best is not None:
            limits = best.target.limits(demands)
            found += [best.genotype, *feasible_networks(space, limits, -(-_POOL // len(budgets_ms)), seed)]
        else:
            say(f"no network is predicted to keep {budget_ms:g} ms; the fastest is measured for it at the end")
    return Pool(space, tuple({str(genotype.record()): genotype for genotype in found}.values()), tuple(limits))


def _with_bar(evaluated: Iterator[Choices], at_most: int) -> Iterator[Choices]:
    with progress_bar(transient=True) as bar:  # one for every limit that is tried
        task = bar.add_task("evolution", total=at_most, note="networks that may fit")
        for choices in evaluated:
            yield choices
            bar.update(task, advance=1)
        bar.finish(task)


def open_prospect(context: Context, by_prediction: bool = False) -> Prospect:
    """What is known of the target; with `by_prediction` nothing is measured, wherever the target is."""
    known = open_target_table(context)
    predictors = {skeleton: known.predictor(skeleton) for skeleton in skeletons_of(context)}
    validations = [predictor.validation for predictor in predictors.values()]
    valid = all(validation is not None and validation.passed for validation in validations)
    return Prospect(
        make_targets(list(predictors), predictors.__getitem__),
        TableState(valid, known.differences),
        known.expect if by_prediction else known.time_network,
        known.table.fingerprint,
        known.sentinel_ms,
    )
