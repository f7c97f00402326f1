"""The section on suspect labels: pictures within the page, names as text, and a word on how far to believe it."""

import base64
from pathlib import Path

import torch

from pipeline.artifacts.suspects import ClassWeights, Suspect, Suspects
from pipeline.data.pool import TensorImages
from pipeline.report.pictures.suspects import draw_suspects, draw_weights
from pipeline.rundir import RunDir
from tests.report.made_run import NASTY, made_run
from tests.report.parsed_page import SECTIONS, Parsed, page_of

ALTS = ["the most suspicious training images with both labels", "shares of the images of each class by weight"]


def made_suspects(labels: tuple[str, ...], count: int = 3) -> Suspects:
    """The first of them has a label that the network agrees with."""
    rows = [
        Suspect(
            index=10 + n,
            file=None if n else f"{labels[0]}/7.png",
            label=labels[0],
            proposed_label=labels[min(n, 1)],
            weight=0.25,
            early_loss=4.0 - n / count,
        )
        for n in range(count)
    ]
    classes = [ClassWeights(label=label, images=50, mean_weight=0.5, share_below_half=0.25) for label in labels]
    return Suspects(detector="early_loss", train_images=1234, guide_accuracy=0.875, suspects=rows, classes=classes)


def suspicious_run(project: Path, labels: tuple[str, ...] = ("cat", "dog"), count: int = 3) -> RunDir:
    run, found = made_run(project, labels=labels), made_suspects(labels, count)
    found.write(run.suspects)
    draw_suspects(run.suspect_sheet, found.suspects, TensorImages(torch.zeros(300, 1, 8, 8, dtype=torch.uint8)))
    draw_weights(run.weight_picture, torch.ones(4), torch.tensor([0, 0, 1, 1]), labels)
    return run


def pictures(parsed: Parsed) -> dict[str, bytes]:
    images = [attributes for tag, attributes in parsed.tags if tag == "img"]
    return {one["alt"] or "": base64.b64decode((one["src"] or "").partition(",")[2]) for one in images}


def test_the_section_holds_the_sheet_the_list_and_the_weights_by_class(tmp_path: Path) -> None:
    run = suspicious_run(tmp_path)
    parsed = Parsed(page_of(run))
    assert parsed.ids == [*SECTIONS[:6], "suspects", *SECTIONS[6:]]
    found = pictures(parsed)
    assert [found[alt] for alt in ALTS] == [run.suspect_sheet.read_bytes(), run.weight_picture.read_bytes()]
    text = " ".join(parsed.text)
    assert "takes 2 of 1,234 training images for another class" in text and "right on 87.5% of the guide" in text
    assert "cat/7.png" in text and "3.67" in text and "0.25" in text and "25.0%" in text
    for path in (run.suspects, run.suspect_sheet, run.weight_picture):
        assert any(a.get("href") == f"../../{path.relative_to(tmp_path)}" for tag, a in parsed.tags if tag == "a")


def test_labels_are_text_and_a_long_list_is_cut(tmp_path: Path) -> None:
    parsed = Parsed(page_of(suspicious_run(tmp_path, NASTY, 250)))
    known = {tag for tag, _ in Parsed(page_of(suspicious_run(tmp_path / "tame"))).tags}
    assert {tag for tag, _ in parsed.tags} == known
    text = "".join(parsed.text)
    assert NASTY[0] + "/7.png" in text and "200 of 250, most suspicious first" in text


def test_pictures_that_are_missing_or_none_of_ours_leave_the_list(tmp_path: Path) -> None:
    run = suspicious_run(tmp_path)
    run.suspect_sheet.unlink()
    run.weight_picture.write_text("<svg onload=alert(1)>")
    page = page_of(run)
    parsed = Parsed(page)
    assert "suspects" in parsed.ids and not set(ALTS) & set(pictures(parsed))
    assert "weights.png is not a picture of this program" in page and "onload" not in page


def test_a_damaged_list_is_said(tmp_path: Path) -> None:
    run = suspicious_run(tmp_path)
    run.suspects.write_text('{"suspects": [{}]}')
    page = page_of(run)
    assert "suspects.json is damaged" in page and 'id="suspects"' not in page
