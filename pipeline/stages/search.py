"""search: architecture parameters that fit the user's data and the budget."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pipeline.artifacts.alphas import Alphas, SupernetWeights
from pipeline.budget.feasibility import check_feasible
from pipeline.budget.limits import Limit
from pipeline.budget.targets import Demands, Target, make_targets
from pipeline.console import counted, say
from pipeline.data.pool import GLIMPSED
from pipeline.latency.validity import require_valid
from pipeline.memory import require_memory
from pipeline.resumable.checkpoint import hash_of
from pipeline.resumable.history import Entry, publish_history
from pipeline.resumable.ranks import is_writer, joined
from pipeline.search.engine import Search
from pipeline.search.guards import FEW_STEPS, describe_short_search
from pipeline.search.loop import SearchFiles, SearchResult, run_search
from pipeline.search.objective import Constraint
from pipeline.search.preview import preview_search
from pipeline.selection.trials import FEWEST_TRIALS
from pipeline.space.cells import Space
from pipeline.space.extremes import cheapest_genotype, costliest_genotype
from pipeline.space.footprint import supernet_bytes
from pipeline.space.score import relative_prices
from pipeline.space.spaces import space_named
from pipeline.stages import stage_named
from pipeline.stages.context import Context
from pipeline.stages.tables import TargetTable, open_target_table, skeletons_of
from pipeline.stages.threads import worthwhile_threads


def run(context: Context) -> None:
    """Write the architecture parameters and the supernet's weights; all ranks of a launcher search, one writes."""
    constraint, config = make_constraint(context, open_target_table(context)), context.config
    _check_size(context)
    with worthwhile_threads(context, context.search_skeleton), joined(context.device) as device:
        search = Search(config.search, config.compute, context.data, context.search_skeleton, constraint, device)
        search.require_steps()
        _warn_of_short_search(search.steps_per_operation, config.search.epochs)
        files = SearchFiles(
            context.run.checkpoints("search"), _working_history(context), context.run.tensorboard("search")
        )
        result = run_search(search, files, _identity(context, constraint), config.search.checkpoint_s)
        if is_writer():
            _write(context, search, constraint, result)


def _warn_of_short_search(steps: int, epochs: int) -> None:
    """Say when operations are judged that have hardly been trained, and what would do."""
    doubt = describe_short_search(steps)
    if doubt:
        exact = -(-epochs * FEW_STEPS // max(steps, 1))
        tens = 10 ** max(len(str(exact)) - 2, 0)  # steps are counted whole, so that more digits would tell nothing
        least = -(-exact // tens) * tens
        say(
            f"{doubt}; [search] epochs = {least:,} is the least ({FEW_STEPS:,} weight steps), more is better, and "
            "`pipeline compare` tells what came of it"
        )


def preview(context: Context) -> None:
    """`search --dry-run`: say what would run, how large it is and how long it takes; write nothing."""
    constraint = make_constraint(context, open_target_table(context))
    config, data = context.config, context.data.glimpse()
    _check_size(context)

    def make(changed: Mapping[str, int]) -> Search:
        # such steps take as long as any, and nothing diverges by them, however few images they are taken on
        settings = config.search.model_copy(update={**changed, "gamma": 1e-20, "weight_lr": 1e-6})
        return Search(settings, config.compute, data, context.search_skeleton, constraint, context.device)

    say(f"timing a few small steps on at most {GLIMPSED} of the images …")
    with worthwhile_threads(context, context.search_skeleton):
        found = preview_search(make, config.search.batch_size)
    terms, epochs = config.search.neumann_terms, config.search.epochs
    say(f"method: {config.search.method}, T = {found.inner_steps}, K = {terms}, {counted(epochs, 'epoch')}")
    for line in found.lines(config.search, context.search_skeleton):
        say(line)
    _warn_of_short_search(found.steps_per_operation, epochs)
    settings = config.discretize
    if settings.evidence_minutes:
        say(
            f"after it: `discretize` trains candidates, asked for {settings.evidence_minutes:g} min "
            f"([discretize] evidence_minutes) and {FEWEST_TRIALS} of them at least, {settings.evidence_steps} steps "
            "each, which may take longer: it says how long after the first"
        )


def _check_size(context: Context) -> None:
    """Refuse a supernet that no memory here can hold, before it is built."""
    search = context.config.search
    if context.device.type == "cpu":
        require_memory(
            supernet_bytes(context.search_skeleton, search.batch_size * search.validation_batches),
            "the search",
            "[search] batch_size, validation_batches, channels, cells or resolution",
        )


def make_constraint(context: Context, table: TargetTable) -> Constraint:
    """The limits on the target network, after the table's validity and the limits' feasibility were checked."""
    target, space = context.config.target, space_named(context.config.target.space)
    predictors = {skeleton: table.predictor(skeleton) for skeleton in skeletons_of(context)}
    for predictor in predictors.values():
        warning = require_valid(predictor.validation, context.config.search.allow_unvalidated)
        if warning:
            say(f"provisional: {warning}")
    if table.differences:
        say(f"provisional: the latency table is of another machine ({'; '.join(table.differences)})")
    demands = Demands.of(target, target.budget_ms)
    targets = make_targets(list(predictors), predictors.__getitem__)
    spans = [_span(space, candidate, demands) for candidate in targets]
    for line in describe_spans(spans):
        say(line)
    check_feasible(space, targets, demands)
    chosen = _steered(spans).target
    prices = relative_prices(space, chosen.latency)
    return Constraint(space, tuple(chosen.limits(demands)), tuple(prices), context.config.search.scale)


class Span(NamedTuple):
    """The fastest and the slowest network of a size in the costs of the search, the least that any may take, and the
    limit."""

    target: Target
    limit: Limit
    least_ms: float
    fastest_ms: float
    slowest_ms: float

    @property
    def distance(self) -> float:
        """How far the limit is from the middle: among several sizes the search takes the one it can steer best."""
        return abs(self.limit.at_most - (self.fastest_ms + self.slowest_ms) / 2)

    @property
    def binds(self) -> bool:
        """Whether there are networks that the limit rules out."""
        return self.limit.at_most < self.slowest_ms

    @property
    def wider_channels(self) -> int:
        """The width at which the limit divides the networks, if their time grows with its square; a multiple of 16."""
        middle_ms, now = (self.fastest_ms + self.slowest_ms) / 2, self.target.skeleton.channels
        return 16 * max(now // 16 + 1, round(now * math.sqrt(self.limit.at_most / middle_ms) / 16))

    @property
    def size(self) -> str:
        return f"{self.target.skeleton.cells} cells × {self.target.skeleton.channels} channels"

    def describe(self) -> str:
        return (
            f"networks of {self.size} take {self.limit.show(self.least_ms)} to {self.limit.show(self.slowest_ms)} "
            f"(predicted p50); the limit is {self.limit.show(self.limit.at_most)}"
        )


def _steered(spans: Sequence[Span]) -> Span:
    """The size that the search goes by: the one that the limit divides best."""
    return min(spans, key=lambda span: span.distance)


def describe_spans(spans: Sequence[Span]) -> Iterator[str]:
    """What networks of each size take, and whether the limit is of any use."""
    yield from (span.describe() for span in spans)
    if not any(span.binds for span in spans):
        wider = max(span.wider_channels for span in spans)
        yield (
            f"the limit does not bind: raise [target] cells, or channels (about {wider} may use it), or name larger "
            "ones in [discretize] channels_grid, and run `pipeline profile` for them"
        )
    if len(spans) > 1:
        yield (
            f"the search goes by networks of {_steered(spans).size}, and so does the latency that it shows; "
            "`discretize` chooses among all sizes"
        )


def _span(space: Space, target: Target, demands: Demands) -> Span:
    limit, least = target.limits(demands)[0], target.least_limits(demands)[0].costs
    fastest, slowest = (limit.costs.of(find(space, limit.costs)) for find in (cheapest_genotype, costliest_genotype))
    return Span(target, limit, least.of(cheapest_genotype(space, least)), fastest, slowest)


def _identity(context: Context, constraint: Constraint) -> str:
    """What a checkpoint belongs to: everything that changes a bit of the result."""
    settings = stage_named("search").settings_in(context.config)
    limits = {limit.name: [limit.at_most, limit.costs.fixed] for limit in constraint.limits}
    prices = [price.tolist() for price in constraint.prices]
    # whose supernets had weights of their own for every operation once
    nested = {"nested": True} if any(kind.nested for kind in constraint.space.kinds) else {}
    return hash_of({"settings": settings, "data": context.data.data_hash, "limits": limits, "prices": prices, **nested})


def _working_history(context: Context) -> Path:
    """That of a search under way: an earlier one stays until this one is done."""
    return context.run.checkpoints("search") / "history.jsonl"


def _write(context: Context, search: Search, constraint: Constraint, result: SearchResult) -> None:
    context.write(SupernetWeights(search.state.supernet.state_dict()))
    context.write(search.judged_networks())
    context.write(
        Alphas(constraint.space, constraint.scale, tuple(result.alphas), constraint.prices, tuple(result.unpenalized))
    )
    entries = publish_history(_working_history(context), context.run.history("search"))
    budget, expected_ms = constraint.limits[0], float(constraint.expected(result.alphas)[0])
    slowest_ms = budget.costs.of(costliest_genotype(constraint.space, budget.costs))
    say(
        f"search done: expected {budget.show(expected_ms)} for a limit of {budget.show(budget.at_most)}; "
        f"{describe_binding(entries, budget, slowest_ms)}"
    )


def describe_binding(entries: Sequence[Entry], limit: Limit, slowest_ms: float) -> str:
    """How often the limit held a search back, by its history; what it expects is the mean over many networks."""
    expected = [entry[name] for entry in entries if (name := f"expected_{limit.unit}") in entry]
    over = sum(value is not None and value > limit.at_most for value in expected)
    if not over and slowest_ms > limit.at_most:
        return "the mean over networks always kept it, and `discretize` chooses a network that does"
    if not over:
        return "the limit never held it back: to make use of all of it, raise [target] cells or channels"
    return f"the limit held it back in {over} of {counted(len(expected), 'architecture step')}"
