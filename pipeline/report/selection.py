"""What discretize shows a person: one row per budget, and what the classic cut would have taken."""

from collections.abc import Iterator, Sequence

from rich import box
from rich.table import Table

from pipeline.artifacts.known_latency import PREDICTED
from pipeline.selection.budgets import Outcome, Sweep
from pipeline.selection.candidate import Candidate
from pipeline.selection.records import TableState
from pipeline.selection.standing import Standing
from pipeline.space.genotype import Genotype
from pipeline.space.operations import is_parameter_free
from pipeline.space.spaces import space_named

_MUCH = 0.25  # of a budget, that a person may have wanted to be used
_HEADINGS = ("budget", "measured", "predicted", "noise", "size", "M MACs", "score", "judged", "rounds")


def summarize(sweep: Sweep, argmax: Candidate, chosen_ms: float) -> Table:
    """Budgets with their certified networks; an arrow marks the one that is trained.

    Latencies in ms, sizes as cells × channels, scores as their place between a random (0 %) and the best cell. What
    decides is `judged`, a network as a whole; where it is not there, the score does.
    """
    percentile = sweep.outcomes[0].demands.percentile
    predicted = any(outcome.chosen.timing.is_predicted for outcome in sweep.outcomes)
    title = "Networks by the target's table, not measured on it" if predicted else "Certified networks"
    table = Table(
        title=f"{title} (p{percentile} in ms)",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for heading in _HEADINGS:
        table.add_column(heading, justify="right", overflow="fold")
    for outcome in sweep.outcomes:
        demands, chosen, measured = outcome.demands, outcome.chosen, outcome.chosen.timing
        mark = "→ " if demands.budget_ms == chosen_ms else ""
        table.add_row(
            f"{mark}{demands.budget_ms:g}",
            "–" if predicted else f"{measured.at(demands.percentile):.3f}",
            f"{measured.at(demands.percentile) if predicted else chosen.predicted.ms:.3f}",
            "–" if predicted else f"{measured.noise_floor:.1%}",
            *_sizes(chosen),
            str(len(outcome.tried)),
        )
    for budget_ms in sorted(sweep.refusals):
        table.add_row(f"{budget_ms:g}", "over")
    table.add_row("argmax", "", f"{argmax.predicted.ms:.3f}", "", *_sizes(argmax), "", style="dim")
    return table


def remarks(sweep: Sweep, trained: Outcome, table: TableState) -> Iterator[str]:
    """What a person should know beside the table: refusals, poor choices, doubts, and which network is trained."""
    yield from map(str, sweep.refusals.values())
    for outcome in sweep.outcomes:
        if outcome.chosen.share < 0:
            yield (
                f"the cell chosen for {outcome.demands.budget_ms:g} ms scores below a random one "
                f"({outcome.chosen.share:.0%}): the budget leaves little of what the search found; raise it, or make "
                "the network smaller with [target] cells and channels"
            )
    yield from _unused(sweep.outcomes)
    for outcome in sweep.outcomes:
        for kind in kinds_without_weights(outcome.chosen.genotype):
            yield (
                f"the {kind} cell for {outcome.demands.budget_ms:g} ms is made of skips and poolings alone; "
                "`pipeline compare --rivals random` tells whether that is a find, or the search was too short"
            )
    yield from filter(None, map(_doubt_of_noise, sweep.outcomes))
    if trained.chosen.timing.is_predicted:
        yield (
            f"{PREDICTED}: {table.describe()}; `pipeline discretize --write-kit DIR` hands the candidates out to be "
            "timed there"
        )
    elif not table.trusted:
        yield f"{table.describe()}: what was measured holds, but the certificate is marked provisional"
    if len(sweep.outcomes) > 1:
        others = [f"{one.demands.budget_ms:g}" for one in sweep.outcomes if one is not trained]
        yield (
            f"`pipeline retrain` trains the network of {trained.demands.budget_ms:g} ms; with --budget-ms "
            f"{' or '.join(others)} that of another budget"
        )


def kinds_without_weights(genotype: Genotype) -> Iterator[str]:
    """Kinds of cells all of whose operations have nothing to learn; single layers, which may be skipped, are none."""
    for kind in space_named(genotype.space).kinds:
        kept = list(genotype.kept(kind))
        if len(kept) > 1 and all(is_parameter_free(one.operation) for one in kept):
            yield kind.name


def _unused(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Budgets that leave much to spare, and those that have the network of a smaller one."""
    for place, outcome in enumerate(outcomes):
        chosen, budget_ms = outcome.chosen, outcome.demands.budget_ms
        same = [one.demands.budget_ms for one in outcomes[:place] if one.chosen.identity == chosen.identity]
        left = 1 - chosen.timing.at(outcome.demands.percentile) / budget_ms
        if same or left > _MUCH:
            what = f"has the network of {same[0]:g} ms" if same else f"has a network that leaves {left:.0%} of it"
            yield f"{budget_ms:g} ms {what}: none that takes longer was judged better"


def _doubt_of_noise(outcome: Outcome) -> str:
    """The doubt about a network whose latency may be over the budget as well; nothing where there is none."""
    budget_ms, percentile, *_ = outcome.demands
    timing = outcome.chosen.timing
    if timing.is_predicted or not timing.is_within_noise_of(budget_ms, percentile):
        return ""
    low, high = timing.interval_ms(percentile)
    return (
        f"{budget_ms:g} ms is within the noise: p{percentile} lies between {low:.4g} and {high:.4g} ms, and the export "
        "may be refused; before it is trained, time it again while the machine is quiet (--force), or ask for less"
    )


def show_evidence(standings: Sequence[Standing]) -> Table:
    """What each source of judgement was found to tell on this data."""
    table = Table(
        title="Evidence from short trainings",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        caption="Trusted without them, with half a weight each, are alpha and supernet of a long search that agrees "
        "with naswot and expressivity, or else these two. Other weights are earned, all fitted together.",
        caption_justify="left",
    )
    for heading in ("source", "rank correlation", "95 %", "weight"):
        table.add_column(heading, justify="left" if heading == "source" else "right")
    for source, tau, low, high, weight in standings:
        table.add_row(source, f"{tau:+.2f}", f"{low:+.2f} … {high:+.2f}", "" if weight is None else f"{weight:.2f}")
    return table


def _sizes(pick: Candidate) -> tuple[str, str, str, str]:
    skeleton = pick.target.skeleton
    judged = "" if pick.judged is None else f"{pick.judged:+.2f}"
    return f"{skeleton.cells} × {skeleton.channels}", f"{pick.macs / 1e6:.2f}", f"{pick.share:.0%}", judged
