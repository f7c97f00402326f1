"""Pictures of a training: its curves, what the network confuses, and how far its confidence can be believed."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.rundir import writing
from pipeline.training.measures import Measures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LARGEST_NAMED = 40  # classes whose names fit along an axis
_LARGEST_COUNTED = 15  # classes whose counts fit into the squares


def draw_all(folder: Path, history: Sequence[dict[str, Any]], measures: Measures, labels: Sequence[str]) -> None:
    """curves.png, confusion.png and calibration.png in a folder."""
    save_figure(folder / "curves.png", (9.0, 3.5), lambda figure: _draw_curves(figure, history))
    side = min(12.0, 3.5 + 0.25 * len(labels))
    save_figure(folder / "confusion.png", (side + 1, side), lambda figure: _draw_confusion(figure, measures, labels))
    save_figure(folder / "calibration.png", (4.5, 4.5), lambda figure: _draw_calibration(figure, measures))


def save_figure(path: Path, size: tuple[float, float], draw: Callable[["Figure"], None]) -> None:
    """A figure of a size in inches as a PNG file."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    draw(figure)
    with writing(path) as part:
        figure.savefig(part, format="png", dpi=120)


def _draw_curves(figure: "Figure", history: Sequence[dict[str, Any]]) -> None:
    epochs = [entry for entry in history if entry.get("train_loss") is not None]
    loss, accuracy, rate = figure.subplots(1, 3)
    for axes, names, title in (
        (loss, ("train_loss",), "loss"),
        (accuracy, ("train_top1", "holdout_top1"), "top-1"),
        (rate, ("lr",), "learning rate"),
    ):
        for name in names:
            points = [(entry["epoch"], entry[name]) for entry in epochs if entry.get(name) is not None]
            if points:
                axes.plot(*zip(*points, strict=True), label=name.removesuffix("_top1").removesuffix("_loss"))
        axes.set(title=title, xlabel="epoch")
        if len(axes.lines) > 1:
            axes.legend()


def _draw_confusion(figure: "Figure", measures: Measures, labels: Sequence[str]) -> None:
    totals = [max(sum(row), 1) for row in measures.confusion]
    shares = [[count / total for count in row] for row, total in zip(measures.confusion, totals, strict=True)]
    axes = figure.subplots()
    picture = axes.imshow(shares, vmin=0, vmax=1, cmap="Blues")
    figure.colorbar(picture, ax=axes, label="share of the true class")
    axes.set(xlabel="answer", ylabel="truth", title=f"top-1 {measures.top1:.2%} of {measures.images} test images")
    if len(labels) <= _LARGEST_NAMED:
        axes.set_xticks(range(len(labels)), [literal(label) for label in labels], rotation=90)
        axes.set_yticks(range(len(labels)), [literal(label) for label in labels])
    if len(labels) <= _LARGEST_COUNTED:
        for i, row in enumerate(measures.confusion):
            for j, count in enumerate(row):
                if count:
                    axes.text(j, i, str(count), ha="center", va="center", color="w" if shares[i][j] > 0.5 else "k")


def _draw_calibration(figure: "Figure", measures: Measures) -> None:
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="0.7", linestyle="--", label="as confident as right")
    axes.plot(
        [b.confidence for b in measures.calibration],
        [b.accuracy for b in measures.calibration],
        marker="o",
        label=f"test images (error {measures.calibration_error:.1%})",
    )
    axes.set(xlabel="confidence", ylabel="accuracy", xlim=(0, 1), ylim=(0, 1))
    axes.legend()


def literal(label: str) -> str:
    """A label whose dollar signs are not taken for formulas."""
    return label.replace("$", r"\$")
