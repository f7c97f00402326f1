"""Pictures of what was learned about the training images: the most suspicious ones, and weights by class."""

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pipeline.artifacts.suspects import Suspect
from pipeline.data.pool import Images
from pipeline.whole_files import writing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SIDE = 8
_LONGEST_LABEL = 14
_LARGEST_WEIGHT, _BINS = 4.0, 32


def draw_suspects(path: Path, suspects: Sequence[Suspect], images: Images) -> None:
    """A sheet of the 64 most suspicious images, each with "given → proposed"; a proposal is red where it differs."""
    shown = suspects[: _SIDE**2]
    pixels = images.take(torch.tensor([suspect.index for suspect in shown]))
    rows = -(-len(shown) // _SIDE)
    _save_figure(path, (1.5 * _SIDE, 1.7 * rows), lambda figure: _fill_sheet(figure, shown, pixels, rows))


def _fill_sheet(figure: "Figure", shown: Sequence[Suspect], pixels: Tensor, rows: int) -> None:
    places = figure.subplots(rows, _SIDE, squeeze=False).flatten()
    for place in places:
        place.axis("off")
    for place, suspect, image in zip(places, shown, pixels, strict=False):
        place.imshow(image.permute(1, 2, 0).squeeze(-1).numpy(), cmap="gray", vmin=0, vmax=255)
        agrees = suspect.label == suspect.proposed_label
        title = f"{_shorten(suspect.label)} → {_shorten(suspect.proposed_label)}"
        place.set_title(title, fontsize=7, color="k" if agrees else "r")
    figure.suptitle("most suspicious first: given label → proposed label", fontsize=9)


def draw_weights(path: Path, weights: Tensor, given: Tensor, labels: Sequence[str]) -> None:
    """Per class, which share of its images has which weight."""
    counts = torch.stack(
        [
            torch.histc(weights[given == c].clamp(max=_LARGEST_WEIGHT), _BINS, 0, _LARGEST_WEIGHT)
            for c in range(len(labels))
        ]
    )
    shares = counts / counts.sum(1, keepdim=True).clamp(min=1)

    def draw(figure: "Figure") -> None:
        axes = figure.subplots()
        extent = (0.0, _LARGEST_WEIGHT, len(labels) - 0.5, -0.5)
        picture = axes.imshow(shares.numpy(), aspect="auto", cmap="Blues", extent=extent, interpolation="nearest")
        figure.colorbar(picture, ax=axes, label="share of the class")
        axes.axvline(1.0, color="0.6", linewidth=0.8)
        axes.set(xlabel=f"weight (mean 1; {_LARGEST_WEIGHT:g} and more in the last column)", ylabel="given label")
        axes.set_yticks(range(len(labels)), [_shorten(label) for label in labels], fontsize=7)

    _save_figure(path, (7.0, min(14.0, 2.0 + 0.25 * len(labels))), draw)


def _shorten(label: str) -> str:
    return _literal(label if len(label) <= _LONGEST_LABEL else f"{label[: _LONGEST_LABEL - 1]}…")


def _literal(label: str) -> str:
    """A label whose dollar signs are not taken for formulas."""
    return label.replace("$", r"\$")


def _save_figure(path: Path, size: tuple[float, float], draw: Callable[["Figure"], None]) -> None:
    """A figure of a size in inches as a PNG file."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    draw(figure)
    with writing(path) as part, warnings.catch_warnings():
        # a class may be called 猫; a box stands in the picture where the font lacks it, the name in suspects.json
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from", category=UserWarning)
        figure.savefig(part, format="png", dpi=120)
