"""Training images whose labels may be wrong, and how much the images of each class count; if labels were checked."""

import base64
from xml.etree.ElementTree import Element

from pipeline.artifacts.suspects import Suspects
from pipeline.report.contents import Contents
from pipeline.report.layout import Cell, figure, folded, percent, section, sources, table, whole
from pipeline.report.markup import Child, tag

_MOST = 200


def make_suspects(contents: Contents) -> Element | None:
    found = contents.suspects
    if found is None:
        return None
    run = contents.run
    return section(
        "suspects",
        "Suspect labels",
        tag("p", _describe(found)),
        figure(
            _embed(contents.suspect_sheet, "the most suspicious training images with both labels"),
            "The most suspicious training images: given label → the class that the network takes it for.",
            contents.place(run.suspect_sheet),
        ),
        _table(found),
        tag("p", sources(contents.place(run.suspects))),
        folded(
            "Weights by class",
            figure(
                _embed(contents.weight_picture, "shares of the images of each class by weight"),
                "Which share of the images of each given label has which weight.",
                contents.place(run.weight_picture),
            ),
            _classes(found),
        ),
    )


def _describe(found: Suspects) -> str:
    """How far to believe the list, before anybody deletes by it."""
    other = sum(one.label != one.proposed_label for one in found.suspects)
    return (
        f"After the plain epochs the network takes {other:,} of {found.train_images:,} training images for another "
        f"class than their label says; it is right on {found.guide_accuracy:.1%} of the guide images, so some of them "
        "are its own mistakes. Look before you delete."
    )


def _embed(png: bytes | None, words: str) -> Element | None:
    if png is None:
        return None
    return tag("img", src=f"data:image/png;base64,{base64.b64encode(png).decode()}", alt=words)


def _table(found: Suspects) -> Element:
    shown = found.suspects[:_MOST]
    rows: list[list[Child | Cell]] = [
        [
            Cell(one.index, float(one.index)),
            "–" if one.file is None else one.file,
            one.label,
            one.proposed_label,
            Cell(f"{one.early_loss:.2f}", one.early_loss),
            Cell(f"{one.weight:.2f}", one.weight),
        ]
        for one in shown
    ]
    headings = ("row in the data", "file", "given label", "proposed label", "early loss", "weight")
    words = (
        f"{len(shown):,} of {len(found.suspects):,}, most suspicious first by early loss: the mean loss over the plain "
        "epochs, which finds wrong labels more surely than the learned weight beside it (1 is the mean)."
    )
    return table(headings, rows, words, numeric=(0, 4, 5))


def _classes(found: Suspects) -> Element:
    rows: list[list[Child | Cell]] = [
        [
            one.label,
            whole(one.images),
            Cell(f"{one.mean_weight:.2f}", one.mean_weight),
            percent(one.share_below_half),
        ]
        for one in found.classes
    ]
    return table(("given label", "images", "mean weight", "weight below 0.5"), rows, numeric=(1, 2, 3))
