"""An exported file can teach the next network: it states its size and classes, and normalizes by itself."""

from pathlib import Path

import torch

from pipeline.artifacts.trained import Trained
from pipeline.data.normalization import to_floats
from pipeline.deploy.deployed import reference_logits
from pipeline.training.onnx_teacher import open_onnx
from tests.deploy.conftest import LABELS, make_images


def test_an_export_answers_as_its_network_does(trained: Trained, model_file: Path) -> None:
    images = torch.stack([image for image, _ in make_images(trained, 5)])
    teacher = open_onnx(model_file, torch.device("cpu"))
    assert (teacher.channels, teacher.side, teacher.labels) == (3, 16, LABELS)
    assert torch.allclose(teacher.run(to_floats(images)), reference_logits(trained, images), atol=1e-4)
