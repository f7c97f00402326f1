"""What the page says of the trained network: its accuracy, its mistakes, its teacher."""

from pathlib import Path

from pipeline.artifacts.metrics import Metrics, TeacherFigures
from pipeline.artifacts.mistakes import Mistakes
from tests.report.made_run import made_run
from tests.report.parsed_page import Parsed, page_of


def test_a_network_no_better_than_chance_is_called_so(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    assert "no better than chance" not in page_of(run)
    metrics = Metrics.read(run.metrics)
    share = metrics.largest_class_share
    metrics.model_copy(update={"test_accuracy": share}).write(run.metrics)
    page = page_of(run)
    told = f"But it is no better than chance: answering always the most frequent class is right on {share:.0%}"
    assert told in "".join(Parsed(page).text) and "<code>pipeline check</code>" in page


def test_the_surest_mistakes_are_named_by_file_and_few_classes_have_no_top_5(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    mistakes, metrics = Mistakes.read(run.mistakes), Metrics.read(run.metrics)
    assert f"image {mistakes.shown[0].image}" in "".join(Parsed(page_of(run)).text)
    named = mistakes.shown[0].model_copy(update={"file": "/home/me/photos/test/cats/<b>.jpg"})
    mistakes.model_copy(update={"shown": [named]}).write(run.mistakes)
    text = "".join(Parsed(page_of(run)).text)
    assert "cats/<b>.jpg" in text and "/home/me" not in text, "a page is shown to others"
    assert "top-5" not in text
    nine, ten = (metrics.model_copy(update={"per_class": [metrics.per_class[0]] * count}) for count in (9, 10))
    assert nine.describe_top5() == "" and ten.describe_top5() == f" (top-5 {metrics.test_top5:.2%})"


def test_a_teacher_and_where_weights_started_are_named_with_their_measure(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    assert "teacher" not in "".join(Parsed(page_of(run)).text)
    teacher = TeacherFigures(
        name="timm:<big>", sha256="0" * 64, weight=0.9, temperature=4.0, accuracy=0.875, probe_accuracy=0.5,
        images=80, judged_on="the holdout", kept=False,
    )  # fmt: skip
    metrics = Metrics.read(run.metrics)
    metrics.model_copy(update={"teacher": teacher, "start": "supernet, 90% of the weights"}).write(run.metrics)
    text = "".join(Parsed(page_of(run)).text)
    assert "timm:<big>, right on 87.5% of 80 images from the holdout" in text and "a linear probe has 50.0%" in text
    assert "started with weights of supernet, 90% of the weights" in text
