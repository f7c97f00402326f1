from collections import Counter
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest
import torch

from pipeline.deploy.deployed import Deployed, reference_logits
from pipeline.deploy.evaluation import Session, compare
from pipeline.latency.models import make_network
from pipeline.onnx_file import write_quick
from tests.deploy.conftest import make_images
from tests.latency.test_executed import OnnxMaker

SAME = {"GlobalAveragePool": "ReduceMean", "Flatten": "Reshape"}  # the exporters' words for the head's mean


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


def test_what_is_certified_executes_what_the_deployed_file_executes(trained, model_file, tmp_path):
    """Random weights, another exporter and a fixed batch leave the runtime the same work, normalization included."""
    network = trained.network
    certified = tmp_path / "certified.onnx"
    certified.write_bytes(make_network(OnnxMaker(), network.skeleton, network.genotype))  # type: ignore[arg-type]
    assert executed_kinds(certified, tmp_path) == executed_kinds(model_file, tmp_path)


def executed_kinds(model: Path, folder: Path) -> Counter[str]:
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath, options.log_severity_level = str(folder / "optimized.onnx"), 3
    onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    kinds = [node.op_type for node in onnx.load(options.optimized_model_filepath).graph.node]
    return Counter(SAME.get(kind, kind) for kind in kinds)
