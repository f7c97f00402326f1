"""What an export says about itself: metadata inside model.onnx, and model.json beside it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

import onnx
import torch

from pipeline.artifacts.certificate import Certificate
from pipeline.artifacts.model_card import Int8Trial, KeptClause, ModelCard
from pipeline.artifacts.trained import Trained
from pipeline.deploy.contract import Export, Verdict
from pipeline.latency.target import P50_MEANS
from pipeline.onnx_file import BATCH, INPUT, OLDEST_ONNXRUNTIME, OPSET, OUTPUT
from pipeline.rundir import RunDir
from pipeline.space.plan import count_macs, count_params
from pipeline.whole_files import sha256_of


def describe_model(trained: Trained, uint8_input: bool) -> dict[str, Any]:
    """What follows from the weights alone; nothing in it changes from one export to the next."""
    skeleton, genotype = trained.network.skeleton, trained.network.genotype
    side = skeleton.resolution
    return {
        "input": {
            "name": INPUT,
            "shape": [BATCH, skeleton.in_channels, side, side],
            "type": "uint8" if uint8_input else "float32",
            "range": [0, 255] if uint8_input else [0, 1],
        },
        "output": {"name": OUTPUT, "shape": [BATCH, skeleton.classes], "type": "float32"},
        "labels": list(trained.labels),
        "resolution": side,
        "normalization": {"mean": list(trained.mean), "std": list(trained.std), "place": "inside the graph"},
        "genotype": genotype.record(),
        "skeleton": asdict(skeleton),
        "params": count_params(skeleton, genotype),
        "macs": count_macs(skeleton, genotype),
        "opset": OPSET,
        "oldest_onnxruntime": OLDEST_ONNXRUNTIME,
        "versions": {
            "pipeline": version("latency-pipeline"),
            "torch": torch.__version__,
            "onnx": onnx.__version__,
            "onnxscript": version("onnxscript"),
        },
    }


def describe_origin(run: RunDir, certificate: Certificate) -> dict[str, Any]:
    """The budget, the certificate, and hashes of what the run handed over."""
    return {
        "budget_ms": certificate.budget_ms,
        "percentile": certificate.percentile,
        "certificate": certificate.record(),
        "sources_sha256": {path.name: sha256_of(path) for path in (run.weights, run.genotype, run.certificate)},
    }


def to_metadata(description: Mapping[str, Any]) -> dict[str, str]:
    """ONNX metadata holds text only: texts as they are, everything else as JSON."""
    return {
        key: value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)
        for key, value in description.items()
    }


def make_card(
    owner: Mapping[str, str],
    description: Mapping[str, Any],
    export: Export,
    verdicts: Sequence[Verdict],
    int8: Int8Trial | None,
    teacher: str = "",
) -> ModelCard:
    """model.json; a teacher has left no other trace than its line there."""
    return ModelCard(
        run=dict(owner),
        **description,
        test_accuracy=export.comparison.correct_file / export.comparison.images,
        **export.measured.record_beside(description["budget_ms"], description["percentile"]),
        p50_means=P50_MEANS,
        file_mb=export.model_path.stat().st_size / 1e6,
        contract=[KeptClause(**verdict.record()) for verdict in verdicts],
        int8=int8,
        teacher=teacher,
        files={path.name: sha256_of(path) for path in sorted(export.folder.iterdir())},
    )
