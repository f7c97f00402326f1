"""Rivals of the same latency, and networks for several budgets."""

from xml.etree.ElementTree import Element

from pipeline.artifacts.comparison import Comparison, Difference, Entrant
from pipeline.artifacts.metrics import Metrics
from pipeline.console import counted
from pipeline.report.contents import BudgetResult, Contents
from pipeline.report.layout import Cell, figure, milliseconds, percent, section, sources, table, whole
from pipeline.report.markup import Child, tag
from pipeline.report.pictures.rivals import draw_rivals
from pipeline.report.pictures.selection import ParetoPoint, draw_pareto

_BUDGET_HEADINGS = ("budget, ms", "measured, ms", "cells × channels", "M multiply-adds", "score", "test accuracy")


def make_rivals(contents: Contents) -> Element | None:
    found = contents.comparison
    if found is None:
        return None
    source = contents.place(contents.run.comparison)
    seeds = counted(len(found.seeds), "seed")
    words = (
        f"All trained alike: the same {found.train_images:,} images, loader and recipe (without auxiliary head and "
        f"dropped paths, which only some networks have), {counted(found.epochs, 'epoch')}, {seeds}, tested on "
        f"{found.test_images:,} images. Latencies were taken in the same rounds"
        f"{'' if found.on_target else ', on this machine and not on the target'}, and may differ from that of the "
        f"answer as the machine drifts.{_deployed(contents.metrics)}"
    )
    return section(
        "rivals",
        "Rivals of the same latency",
        tag("p", tag("strong", found.sentence)),
        tag("p", words),
        figure(draw_rivals(found), "Test accuracy by seed, with the mean.", source),
        _table(found),
        [tag("p", _unmatched(found), sources(source))],
    )


def _deployed(metrics: Metrics | None) -> str:
    """Why the accuracy of the answer is another."""
    if metrics is None:
        return ""
    length = counted(metrics.epochs, "epoch")
    return f" The deployed weights had {length} of the whole recipe: {metrics.test_accuracy:.2%}, as the answer says."


def _table(found: Comparison) -> Element:
    rows: list[list[Child | Cell]] = []
    differences = {row.name: row for row in found.differences}
    for one in found.entrants:
        mean = sum(one.accuracies) / len(one.accuracies)
        spread = f"{min(one.accuracies):.1%} … {max(one.accuracies):.1%}" if len(one.accuracies) > 1 else "one seed"
        behind = differences.get(one.name)
        lead = Cell("–", None) if behind is None else Cell(_show_lead(behind), behind.mean)
        rows.append([one.name, Cell(f"{mean:.2%}", mean), spread, lead, *_figures(one)])
    headings = (
        "network", "accuracy", "over seeds", "lead, points", f"p{found.percentile} ms", "width",
        "params", "M MACs", "train s",
    )  # fmt: skip
    words = (
        "The lead of the certified network has its 95 % interval in brackets: with zero in it, chance may explain it."
    )
    return table(headings, rows, words, chosen=0, numeric=(1, 2, 3, 4, 5, 6, 7, 8))


def _show_lead(behind: Difference) -> str:
    lead = f"{100 * behind.mean:+.2f}"
    if behind.low is None or behind.high is None:
        return lead
    return f"{lead} ({100 * behind.low:+.2f} … {100 * behind.high:+.2f})"


def _figures(one: Entrant) -> list[Child | Cell]:
    return [
        milliseconds(one.measured_ms),
        Cell("–" if one.width is None else f"{one.width:.2f}", one.width),
        whole(one.params),
        Cell(f"{one.macs / 1e6:.2f}", float(one.macs)),
        Cell(f"{one.training_s:.0f}", one.training_s),
    ]


def _unmatched(found: Comparison) -> str:
    return " ".join(
        f"{one.name} was left out: the nearest it comes is {one.measured_ms:.3g} ms, at width {one.width:.2f}."
        for one in found.unmatched
    )


def make_budgets(contents: Contents) -> Element | None:
    """Several budgets from one search."""
    certified = [result for result in contents.budgets if result.certificate and result.selection]
    if len(contents.budgets) < 2 or not certified:
        return None
    percentile = certified[0].certificate.percentile if certified[0].certificate else 50
    largest = certified[-1].selection
    argmax = None if largest is None else (largest.argmax.predicted_ms, largest.argmax.score_share)
    points = [point for result in certified if (point := _point(result)) is not None]
    folder = contents.run.root / "discretize"
    files = [contents.place(folder / f"{result.budget_ms:g}ms" / "certificate.json") for result in certified]
    refused = [f"{result.budget_ms:g} ms" for result in contents.budgets if result.certificate is None]
    words = f"No network was measured to keep {', '.join(refused)}." if refused else ""
    picture = draw_pareto(points, percentile, argmax)
    caption = "The network for each budget: its score and measured latency; labels are cells × channels."
    networks = table(_BUDGET_HEADINGS, [_budget_row(result) for result in certified], numeric=(0, 1, 3, 4, 5))
    return section("budgets", "Several budgets", networks, figure(picture, caption, *files), tag("p", words))


def _budget_row(result: BudgetResult) -> list[Child | Cell]:
    assert result.certificate is not None and result.selection is not None
    chosen, metrics = result.selection.chosen, result.metrics
    return [
        Cell(f"{result.budget_ms:g}", result.budget_ms),
        milliseconds(result.certificate.certified_ms),
        f"{chosen.cells} × {chosen.channels}",
        Cell(f"{chosen.macs / 1e6:.2f}", float(chosen.macs)),
        percent(chosen.score_share, 0),
        Cell("not trained", None) if metrics is None else percent(metrics.test_accuracy, 2),
    ]


def _point(result: BudgetResult) -> ParetoPoint | None:
    certificate, selection = result.certificate, result.selection
    if certificate is None or selection is None:
        return None
    chosen = selection.chosen
    return ParetoPoint(
        result.budget_ms,
        certificate.certified_ms,
        certificate.noise_floor or 0.0,
        chosen.score_share,
        f"{chosen.cells} × {chosen.channels}",
    )
