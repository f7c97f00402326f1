"""How good a teacher is: judged on the holdout, beside a linear probe."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from pipeline.data.normalization import to_floats
from pipeline.errors import UserError
from pipeline.stages.context import Context
from pipeline.stages.parts import split_training
from pipeline.stages.teacher_judgement import judge
from pipeline.training.linear_probe import probe_accuracy
from tests.stages.made_teachers import opened, write_onnx
from tests.stages.test_retrain import make_context


def judged(context: Context, weights: np.ndarray) -> Any:
    write_onnx(context.run.project / "teacher.onnx", weights=weights.astype(np.float32))
    return judge(opened(context), split_training(context), context)


def test_a_teacher_is_judged_on_the_holdout_beside_a_linear_probe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    context = make_context(tmp_path, teacher="teacher.onnx", holdout_share=0.2)
    parts = split_training(context)
    assert parts.holdout is not None
    weights = np.random.default_rng(0).normal(size=(64, 10))
    figures = judged(context, weights)
    pixels = to_floats(parts.holdout.images.take(parts.holdout.indices)).flatten(1).numpy()
    truth = parts.holdout.targets[parts.holdout.indices].numpy()
    assert figures.accuracy == pytest.approx(float(((pixels @ weights).argmax(1) == truth).mean()))
    assert figures.images == len(truth) and figures.judged_on == "the holdout" and not figures.kept
    assert figures.probe_accuracy == probe_accuracy(parts.train, parts.holdout) > 0.7
    told = capsys.readouterr().err
    assert "a plain linear probe" in told and "this teacher is worse" in told


def test_a_good_teacher_is_not_named_and_without_a_holdout_it_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    context = make_context(tmp_path, teacher="teacher.onnx")
    data = context.data
    pixels = to_floats(data.pool.images.take(torch.arange(len(data.pool.targets)))).flatten(1).double()
    signs = 2 * functional.one_hot(data.pool.targets, 10).double() - 1
    best = torch.linalg.lstsq(pixels, signs).solution.numpy()  # of all images: it has seen the answers
    figures = judged(context, best)
    assert figures.accuracy >= figures.probe_accuracy and "may have seen" in figures.judged_on
    told = capsys.readouterr().err
    assert "is right on" in told and "linear probe" not in told


def test_logits_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    context = make_context(tmp_path, teacher="teacher.onnx")
    with pytest.raises(UserError, match="not finite"):
        judged(context, np.full((64, 10), np.nan))
