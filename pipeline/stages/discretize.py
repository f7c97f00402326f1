"""discretize: the best cell that fits, measured before it is trained."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from torch import Tensor
from torch.nn import functional

from pipeline.artifacts.alphas import Alphas, SupernetWeights
from pipeline.budget.integer_programme import Scores
from pipeline.budget.targets import Target, make_targets
from pipeline.console import console, progress_bar, say
from pipeline.errors import UserError
from pipeline.fingerprint import Fingerprint
from pipeline.latency.measured import Measured
from pipeline.report.pictures.pareto import draw_pareto
from pipeline.report.selection import summarize
from pipeline.rundir import sha256_of
from pipeline.selection.certification import Measure
from pipeline.selection.chooser import Chooser
from pipeline.selection.comparison import Material, RaceJudge, SupernetJudge
from pipeline.selection.evolution import Climber
from pipeline.selection.job import Job
from pipeline.selection.measuring import NetworkTimer
from pipeline.selection.outcome import Judge, Rules
from pipeline.selection.promise import AtDepth, Untrained, Worth
from pipeline.selection.records import Circumstances, TableState
from pipeline.selection.refinement import Guide
from pipeline.selection.sweep import order_budgets, pick_outcome, sweep_budgets
from pipeline.space.cells import Space
from pipeline.space.choices import Choices
from pipeline.space.genotype import Genotype
from pipeline.space.score import argmax_genotype
from pipeline.space.skeleton import Skeleton
from pipeline.stages.context import Context
from pipeline.stages.tables import open_target_table, skeletons_of

_IMAGES, _LARGEST_RESOLUTION = 32, 32  # of looks at untrained networks


class Prospect(NamedTuple):
    """The sizes that can be built with what the table predicts of them, and how networks are measured here."""

    targets: Sequence[Target]
    table: TableState
    measure: Measure
    device: Fingerprint
    sentinel_ms: float | None = None


def run(context: Context) -> None:
    """Write a genotype, how it was selected and its certificate, for every budget asked."""
    discretize(context, _open_prospect(context))


def discretize(context: Context, prospect: Prospect) -> None:
    """The stage, wherever predictions and measurements come from."""
    target, folder = context.config.target, context.run.genotype.parent
    budgets_ms = order_budgets(context.config.discretize.budgets_ms or [target.budget_ms], say)
    job = _make_job(context, prospect, _read_alphas(context))
    sweep = sweep_budgets(budgets_ms, job.select)
    if len(budgets_ms) > 1:
        job.write_each(folder, sweep)
        if sweep.outcomes:
            draw_pareto(folder / "pareto.png", sweep.outcomes, job.argmax_beside(sweep.outcomes[-1]))
    outcome = pick_outcome(sweep, target.budget_ms)
    job.write(folder, outcome)
    console.print(summarize(sweep, job.argmax_beside(outcome), outcome.demands.budget_ms))
    for error in sweep.refusals.values():
        say(str(error))
    if not prospect.table.trusted:
        say(f"{prospect.table.describe()}: what was measured holds, but the certificate is marked provisional")


def _read_alphas(context: Context) -> Alphas:
    found, wanted = context.read(Alphas), context.config.target.space
    if found.space.name != wanted:
        raise UserError(
            f"{context.run.alphas} is of the space {found.space.name!r}, but [target] space = {wanted!r}; "
            "run `pipeline search` again"
        )
    return found


def _make_job(context: Context, prospect: Prospect, found: Alphas) -> Job:
    settings, target, scores = context.config.discretize, context.config.target, _scores(found)
    guide = None
    if settings.untrained_weight and settings.rule == "best":
        look = _Look.of(context)
        worth = Worth(
            found.space, scores, look.at_random_networks(settings.untrained_samples), settings.untrained_weight
        )
        scores, guide = worth.scores, look.make_guide(found.space, worth, settings.untrained_asks)
    return Job(
        chooser=Chooser(found.space, scores, prospect.targets, settings.score_share),
        argmax=argmax_genotype(found.space, found.scores()),
        measure=prospect.measure,
        rules=Rules(
            settings.max_rounds,
            target.max_noise_floor,
            settings.candidates,
            settings.difference,
            _make_judge(context),
            guide,
        ),
        limits=target,
        circumstances=Circumstances(
            settings.rule,
            settings.rescoring,
            prospect.device,
            prospect.table,
            sha256_of(context.run.alphas),
            prospect.sentinel_ms,
        ),
    )


def _scores(found: Alphas) -> Scores:
    """What the search says of every choice."""
    pairs = zip(found.space.kinds, found.scores(), strict=True)
    return {kind.name: score.double().numpy() for kind, score in pairs}


def _make_material(context: Context) -> Material:
    config = context.config
    return Material(context.data, config.search.batch_size, config.compute.seed, config.data.augment, context.device)


class _Look(NamedTuple):
    """How untrained networks are looked at: their size, small enough to look at many, and the images."""

    skeleton: Skeleton
    images: Tensor
    seed: int

    @classmethod
    def of(cls, context: Context) -> "_Look":
        images = next(_make_material(context).training()).images[:_IMAGES]
        resolution = min(images.shape[-1], _LARGEST_RESOLUTION)
        smaller = functional.interpolate(images, size=resolution, mode="area")
        return cls(replace(context.search_skeleton, resolution=resolution), smaller, context.config.compute.seed)

    def at_random_networks(self, samples: int) -> Untrained:
        with progress_bar() as bar:
            task = bar.add_task("untrained networks", total=samples, note="drawn")
            return Untrained(self.skeleton, self.images, self.seed, samples, lambda: bar.update(task, advance=1))

    def make_guide(self, space: Space, worth: Worth, asks: int) -> Guide | None:
        at_depth = AtDepth(self.skeleton, self.images, self.seed)
        return Guide(Climber(space, worth, asks, self.seed, _with_bar), at_depth.places) if asks else None


def _with_bar(asked: Iterator[Choices], at_most: int) -> Iterator[Choices]:
    with progress_bar() as bar:
        task = bar.add_task("untrained networks", total=at_most, note="that may fit")
        for choices in asked:
            yield choices
            bar.update(task, advance=1)


def _make_judge(context: Context) -> Judge | None:
    settings, skeleton = context.config.discretize, context.search_skeleton
    if settings.rescoring == "race":
        return RaceJudge(skeleton, _make_material(context), context.config.search.weight_lr, settings.race_steps)
    if settings.rescoring == "supernet":
        return SupernetJudge(skeleton, context.read(SupernetWeights), _make_material(context))
    return None


def _open_prospect(context: Context) -> Prospect:
    known = open_target_table(context)
    predictors = {skeleton: known.predictor(skeleton) for skeleton in skeletons_of(context)}
    validations = [predictor.validation for predictor in predictors.values()]
    valid = all(validation is not None and validation.passed for validation in validations)
    return Prospect(
        make_targets(list(predictors), predictors.__getitem__),
        TableState(valid, known.differences),
        _with_progress(NetworkTimer(known.device, known.sentinel_ms)),
        known.device.fingerprint,
        known.sentinel_ms,
    )


def _with_progress(timer: NetworkTimer) -> Measure:
    def measure(skeleton: Skeleton, genotype: Genotype) -> Measured:
        with progress_bar() as bar:
            task = bar.add_task("timing the network", total=100, note=f"{skeleton.cells} × {skeleton.channels}")
            return timer.time(skeleton, genotype, lambda share: bar.update(task, completed=round(100 * share)))

    return measure
