"""The search: expected latency on its way to the limit, lambda, entropy, operations over time, guards that fired."""

from collections.abc import Iterator, Sequence
from typing import Any
from xml.etree.ElementTree import Element

from pipeline.console import counted
from pipeline.report.contents import Contents
from pipeline.report.layout import figure, figures, section
from pipeline.report.markup import tag
from pipeline.report.pictures.scale import MOST_POINTS
from pipeline.report.pictures.search import curve, draw_curves, draw_operation_shares
from pipeline.search.guards import describe_short_search

Entries = Sequence[dict[str, Any]]


def make_search(contents: Contents) -> Element | None:
    entries = contents.search.entries
    if not entries:
        return None
    source = contents.place(contents.run.latest_history("search"))
    losses = {"training half": curve(entries, "train_loss"), "validation half": curve(entries, "validation_loss")}
    entropy = {"entropy": curve(entries, "entropy"), "margin": curve(entries, "margin_mean")}
    accuracies = {
        "supernet": curve(entries, "soft_accuracy"),
        "selected network, same weights": curve(entries, "selected_accuracy"),
    }
    return section(
        "search",
        "The search",
        tag("ul", [tag("li", line) for line in describe_guards(entries)]),
        figures(
            figure(
                draw_curves({"expected": curve(entries, "expected_ms")}, "weight steps", "ms", _limit_ms(contents)),
                "Expected latency of the network that would be selected.",
                source,
            ),
            figure(
                draw_curves({"λ": curve(entries, "penalty_lambda")}, "weight steps", "λ"),
                "Weight of the penalty: it rises while the limit is missed and falls below.",
                source,
            ),
            figure(
                draw_curves(losses, "weight steps", "cross entropy"),
                "Both of the supernet with the weights as they are, each on images of its own half.",
                source,
            ),
            figure(
                draw_curves(entropy, "weight steps", "share"),
                "How undecided the search is: entropy of an edge's operations (1: even weights), and the mean margin "
                "between the first and the second.",
                source,
            ),
            figure(
                draw_operation_shares(entries),
                "Operations of the network that would be selected, at ends of epochs.",
                source,
            ),
            figure(
                draw_curves(accuracies, "weight steps", "accuracy"),
                "Validation accuracy of what the supernet mixes or samples, and of the network it would be cut to.",
                source,
            ),
        ),
        describe_thinning(entries),
    )


def _limit_ms(contents: Contents) -> float | None:
    if contents.selection is not None:
        return contents.selection.limit_predicted_ms
    return None if contents.config is None else contents.config.target.budget_ms


def describe_guards(entries: Entries) -> Iterator[str]:
    """What the search noticed about itself."""
    halvings = [entry["step"] for entry in entries if entry.get("gamma_halvings")]
    collapses = [entry for entry in entries if entry.get("collapse")]
    resumed = [entry["resumed_from_step"] for entry in entries if "resumed_from_step" in entry]
    if doubt := describe_short(entries):
        yield f"{doubt[0].upper()}{doubt[1:]}."
    cosine = next((e["hypergradient_check_cosine"] for e in entries if e.get("hypergradient_check_cosine")), None)
    if cosine is not None:
        yield (
            f"At the start the hypergradient's indirect part had a cosine of {cosine:.2f} with that of exact products "
            "(1: the same direction, 0: unrelated)."
        )
    judged = [entry for entry in entries if "first_order_fallback" in entry]
    fallbacks = sum(bool(entry["first_order_fallback"]) for entry in judged)
    if fallbacks:
        yield (
            f"{fallbacks} of {len(judged)} architecture steps took the first-order gradient: the implicit solve ended "
            "no nearer than it began."
        )
    if halvings:
        yield f"γ was halved in {len(halvings)} architecture steps, first at step {halvings[0]}: the series diverged."
    for entry in collapses[:3]:
        yield f"Collapse at epoch {entry.get('epoch', 0) + 1}: {entry['collapse']}."
    if len(collapses) > 3:
        yield f"Collapse in {counted(len(collapses), 'epoch')} in all."
    if not halvings and not collapses and not fallbacks and not doubt:
        yield "No guard fired: no collapse, no halved γ, no step without its implicit part."
    if resumed:
        times = "once" if len(resumed) == 1 else f"{len(resumed)} times"
        yield f"Resumed {times}, from step {', '.join(map(str, resumed[:5]))}."


def describe_short(entries: Entries) -> str:
    """The doubt about a search that hardly trained what it judged."""
    steps = next((entry["steps_per_operation"] for entry in entries if "steps_per_operation" in entry), None)
    return describe_short_search(steps) if isinstance(steps, int) else ""


def describe_thinning(entries: Entries) -> Element | None:
    """Said whenever a curve shows less than the file holds."""
    if len(entries) <= MOST_POINTS:
        return None
    return tag(
        "p",
        f"The history has {len(entries):,} entries. Curves of more than {MOST_POINTS} points are thinned: of every "
        "stretch its lowest and its highest value are drawn.",
    )
