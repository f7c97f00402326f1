"""What an export says about itself: metadata inside model.onnx, and model.json beside it."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import onnx
import torch

from pipeline.deploy.contract import Export, Verdict
from pipeline.errors import UserError
from pipeline.latency.target import P50_MEANS
from pipeline.onnx_file import BATCH, INPUT, OLDEST_ONNXRUNTIME, OPSET, OUTPUT
from pipeline.rundir import RunDir, read_json, sha256_of
from pipeline.space.plan import count_macs, count_params
from pipeline.training.trained import Trained

SCHEMA = 1


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


def describe_origin(run: RunDir, certificate: Mapping[str, Any]) -> dict[str, Any]:
    """The budget, the certificate, and hashes of what the run handed over."""
    return {
        "budget_ms": certificate["budget_ms"],
        "percentile": certificate["percentile"],
        "certificate": dict(certificate),
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
    int8: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """model.json; its last entry is the sha256 of all others."""
    card = {
        "schema": SCHEMA,
        "run": dict(owner),
        **description,
        "test_accuracy": export.comparison.correct_file / export.comparison.images,
        **export.measured.record_beside(description["budget_ms"], description["percentile"]),
        "p50_means": P50_MEANS,
        "file_mb": export.model_path.stat().st_size / 1e6,
        "contract": [verdict.record() for verdict in verdicts],
        "int8": None if int8 is None else dict(int8),
        "files": {path.name: sha256_of(path) for path in sorted(export.folder.iterdir())},
    }
    return {**card, "sha256": _digest(card)}


def _digest(card: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(card, sort_keys=True).encode()).hexdigest()


def read_card(folder: Path) -> dict[str, Any]:
    """The model.json of an export, after checking that it and the files it names are as they were written."""
    card = read_json(folder / "model.json")
    if not isinstance(card, dict) or card.get("schema") != SCHEMA:
        raise UserError(f"{folder / 'model.json'} is not a model card of schema {SCHEMA}; run `pipeline export`")
    claimed = {key: value for key, value in card.items() if key != "sha256"}
    if _digest(claimed) != card.get("sha256"):
        raise UserError(f"{folder / 'model.json'} was altered; run `pipeline export` again")
    for name, digest in card["files"].items():
        if not (folder / name).is_file() or sha256_of(folder / name) != digest:
            raise UserError(f"{folder / name} is not the file that model.json describes; run `pipeline export` again")
    return card
