"""Training: curves, what is confused, whether to believe the confidence, and the surest mistakes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

from pipeline.artifacts.metrics import Metrics
from pipeline.artifacts.mistakes import Mistakes
from pipeline.console import counted
from pipeline.report.contents import Contents
from pipeline.report.layout import Cell, figure, figures, folded, percent, section, sources, table, whole
from pipeline.report.markup import Child, tag
from pipeline.report.pictures.training import FEWEST_IN_BIN, draw_calibration, draw_confusion, draw_training
from pipeline.report.sections.search import describe_thinning
from pipeline.training.measures import wilson_interval

_MOST_CONFUSED = 20


def make_training(contents: Contents) -> Element | None:
    history, metrics, run = contents.training.entries, contents.metrics, contents.run
    if not history and metrics is None:
        return None
    source = contents.place(run.latest_history("retrain"))
    marked = deployed_epoch(history, metrics)
    aside = "; on images kept aside, of the weights that would be deployed"
    has_holdout = any("holdout_loss" in entry for entry in history)
    return section(
        "training",
        "Training",
        tag("p", _describe(metrics)),
        None if metrics is None else _origins(metrics),
        figures(
            figure(
                draw_training(history, {"train_loss": "training images", "holdout_loss": "kept aside"}, "loss", marked),
                "Cross entropy of the deployed head. On training images it is of the weights as they move, with "
                f"augmentation, mixing and smoothing{aside * has_holdout}.",
                source,
            ),
            figure(
                draw_training(
                    history, {"train_top1": "training images", "holdout_top1": "kept aside"}, "accuracy", marked
                ),
                "Share of right answers, likewise: training images are harder by their augmentation.",
                source,
            ),
            figure(draw_training(history, {"lr": "learning rate"}, "learning rate", marked), "Learning rate.", source),
        ),
        describe_thinning(history),
        [] if metrics is None else _test(contents, metrics),
        [] if contents.mistakes is None else _mistakes(contents, contents.mistakes),
    )


def deployed_epoch(history: Sequence[dict[str, Any]], metrics: Metrics | None) -> int | None:
    """The epoch whose weights are deployed: the first best on images kept aside, or the last."""
    epochs = [entry for entry in history if isinstance(entry.get("epoch"), int) and "train_top1" in entry]
    if not epochs or metrics is None:
        return None
    judged = [entry for entry in epochs if isinstance(entry.get("holdout_top1"), float)]
    if "best epoch" in metrics.weights and judged:
        return int(max(judged, key=lambda entry: (entry["holdout_top1"], -entry["epoch"]))["epoch"])
    return int(epochs[-1]["epoch"])


def _describe(metrics: Metrics | None) -> str:
    if metrics is None:
        return "Training is not finished; the test images have not been looked at."
    return (
        f"{counted(metrics.epochs, 'epoch')} on {metrics.train_images:,} images in {metrics.precision}; deployed "
        f"weights: {metrics.weights}. The one look at {metrics.test_images:,} test images found "
        f"{metrics.test_accuracy:.2%} right{metrics.describe_top5()}, a loss of {metrics.test_loss:.3f} "
        f"and a calibration error of {metrics.calibration_error:.1%}."
    )


def _origins(metrics: Metrics) -> Element | None:
    """Whom the network learned from and what it started with, where that is more than labels and chance."""
    lines = []
    if metrics.start != "random":
        lines.append(f"It started with weights of {metrics.start}, not with random ones.")
    if metrics.teacher is not None:
        taught = metrics.teacher
        lines.append(
            f"It learned from a teacher, {taught.describe()} (a linear probe has {taught.probe_accuracy:.1%} there)."
        )
    return tag("p", " ".join(lines)) if lines else None


def _test(contents: Contents, metrics: Metrics) -> list[Child]:
    source = contents.place(contents.run.metrics)
    words = (
        f"How often answers of each confidence are right; bins with fewer than {FEWEST_IN_BIN} answers have no point."
    )
    return [
        figures(
            figure(draw_confusion(metrics), "Rows are the truth, columns the answers; counts of test images.", source),
            figure(draw_calibration(metrics.calibration) if metrics.calibration else None, words, source),
        ),
        _confused(metrics),
        folded("Accuracy by class", _per_class(metrics), tag("p", sources(source))) if metrics.per_class else None,
    ]


def _confused(metrics: Metrics) -> Element | None:
    labels = [row.label for row in metrics.per_class]
    if len(labels) != len(metrics.confusion):
        return None
    pairs = [
        (count, labels[i], labels[j])
        for i, row in enumerate(metrics.confusion)
        for j, count in enumerate(row)
        if i != j and count
    ]
    pairs.sort(key=lambda pair: -pair[0])
    if not pairs:
        return None
    rows: list[list[Child | Cell]] = [[truth, answer, whole(count)] for count, truth, answer in pairs[:_MOST_CONFUSED]]
    words = (
        f"The most frequent of {len(pairs)} kinds of mistakes."
        if len(pairs) > _MOST_CONFUSED
        else "All kinds of mistakes."
    )
    return folded("What is taken for what", table(("truth", "answer", "images"), rows, words, numeric=(2,)))


def _per_class(metrics: Metrics) -> Element:
    rows: list[list[Child | Cell]] = []
    for row in metrics.per_class:
        interval = ""
        if row.accuracy is not None and row.images:
            low, high = wilson_interval(row.accuracy, row.images)
            interval = f"{low:.0%} … {high:.0%}"
        rows.append([row.label, percent(row.accuracy), interval, whole(row.images)])
    return table(("class", "accuracy", "95 %", "test images"), rows, numeric=(1, 2, 3))


def _mistakes(contents: Contents, mistakes: Mistakes) -> list[Child]:
    if not mistakes.shown:
        return [tag("p", "Every test image was answered right.")]
    items = [
        tag(
            "li",
            tag("img", src=f"data:image/png;base64,{one.png}", alt=f"test image {one.image}"),
            tag("bdi", one.truth),
            " taken for ",
            tag("bdi", one.answer),
            f" ({one.confidence:.0%}), ",
            f"image {one.image}" if one.file is None else tag("bdi", "/".join(Path(one.file).parts[-2:])),
        )
        for one in mistakes.shown
    ]
    words = f"{len(items)} of {mistakes.wrong} wrong answers, the surest first. Wrong labels often stand here."
    return [
        tag("h3", "The surest mistakes"),
        tag("p", words, sources(contents.place(contents.run.mistakes))),
        tag("ul", items, class_="images"),
    ]
