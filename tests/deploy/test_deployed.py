from typing import Any

import pytest
import torch

from pipeline.deploy.deployed import Deployed, reference_logits
from pipeline.deploy.evaluation import Session, compare
from pipeline.onnx_file import write_quick
from tests.deploy.conftest import make_images


@pytest.mark.parametrize("uint8_input", [False, True])
def test_pixels_in_logits_out(trained, tmp_path, uint8_input):
    images = torch.stack([image for image, _ in make_images(trained, 5)])
    deployed = Deployed(trained, uint8_input)
    assert deployed.example().dtype == (torch.uint8 if uint8_input else torch.float32)
    write_quick(deployed, [images if uint8_input else images / 255], tmp_path / "quick.onnx")
    mean, std = (torch.tensor(values, dtype=torch.float64).view(3, 1, 1) for values in (trained.mean, trained.std))
    with torch.no_grad():
        expected = trained.network(((images.double() / 255 - mean) / std).float())
    assert torch.allclose(Session(tmp_path / "quick.onnx").logits(images), expected, rtol=0, atol=1e-5)


def test_ties_may_fall_either_way_but_other_disagreements_count(trained, model_file):
    images = make_images(trained, 20)
    logits = reference_logits(trained, torch.stack([image for image, _ in images]))
    margins = logits.topk(2).values.diff().abs().flatten()
    found = compare(trained, model_file, images, tolerance=float(margins.median()) / 2)
    assert found.ties == int((margins <= margins.median()).sum()) and found.disagreements == 0
    wrong: Any = [(image, label + 1) for image, label in images]
    assert compare(trained, model_file, wrong, 1e-4).correct_file == 0
