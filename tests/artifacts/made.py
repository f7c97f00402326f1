"""One small artifact of every kind, made without a clock or a search."""

from collections.abc import Callable
from typing import Any

import torch

from pipeline.artifacts.alphas import Alphas, SupernetWeights
from pipeline.artifacts.artifact import Typed
from pipeline.artifacts.certificate import Certificate, Refusal
from pipeline.artifacts.comparison import Comparison, Difference, Entrant, Unmatched
from pipeline.artifacts.document import Percentiles
from pipeline.artifacts.judged_networks import JudgedNetworks
from pipeline.artifacts.labels import Labels
from pipeline.artifacts.learned_images import LearnedImages
from pipeline.artifacts.metrics import Metrics
from pipeline.artifacts.mistakes import Mistake, Mistakes
from pipeline.artifacts.model_card import ModelCard
from pipeline.artifacts.network import ChosenNetwork, genotype_hash
from pipeline.artifacts.part_times import PartTimes
from pipeline.artifacts.selection import ArgmaxFigures, CandidateFigures, Figures, Selection, SourceFigures
from pipeline.artifacts.stage_record import StageRecord
from pipeline.artifacts.suspects import ClassWeights, Suspect, Suspects
from pipeline.artifacts.trained import Trained
from pipeline.search.expectation import draw_fair_group
from pipeline.space.genotype import genotype_from_record
from pipeline.space.network import Network
from pipeline.space.skeleton import Skeleton
from pipeline.space.spaces import space_named
from pipeline.space.supernet import Supernet
from tests.latency.fakes import FINGERPRINT
from tests.latency.made import made_table

SKELETON = Skeleton("nasbench201", 1, 4, 8, 3, 1)
CELL = "|nor_conv_3x3~0|+|skip_connect~0|none~1|+|nor_conv_1x1~0|avg_pool_3x3~1|nor_conv_3x3~2|"
GENOTYPE = genotype_from_record({"space": "nasbench201", "cell": CELL})
NETWORK = ChosenNetwork(genotype=GENOTYPE, skeleton=SKELETON)
LABELS = ("a, b", "two\nlines", "猫")
SHA = "0123456789abcdef" * 4
MEASURED = Percentiles(p50=0.9, p95=1.1, p99=1.2)


def made_certificate(network: ChosenNetwork = NETWORK, **changes: Any) -> Certificate:
    """The certificate of a network that takes 0.9 ms of 1."""
    fields: dict[str, Any] = {
        "budget_ms": 1.0,
        "percentile": 50,
        "device": FINGERPRINT,
        "sentinel_ms": 0.2,
        "table_validated": True,
        "table_differences": [],
        "fits": True,
        "predicted_ms": 0.9,
        "predicted_interval_ms": (0.85, 0.95),
        "measured_ms": MEASURED,
        "noise_floor": 0.01,
        "provisional": False,
        "genotype_sha256": genotype_hash(network.genotype),
        "skeleton": network.skeleton,
        "iterations": [],
    }
    return Certificate(**fields | changes)


def made_metrics(test_accuracy: float = 1.0) -> Metrics:
    return Metrics(
        test_images=40,
        test_loss=0.1,
        test_accuracy=test_accuracy,
        test_top5=1.0,
        calibration_error=0.01,
        per_class=[],
        confusion=[],
        calibration=[],
        weights="last",
        epochs=1,
        train_images=40,
        precision="float32",
        processes=1,
    )


def made_selection() -> Selection:
    figures: dict[str, Any] = {"cells": 1, "channels": 4, "score": 0.5, "score_share": 0.9, "predicted_ms": 0.9}
    figures |= {"macs": 1000, "params": 100, "genotype": GENOTYPE}
    return Selection(
        rule="best",
        evidence=[SourceFigures(source="alpha", tau=0.5, low=0.1, high=0.7, weight=0.3)],
        alphas_sha256=SHA,
        skeleton=SKELETON,
        limits={"percentile": 50, "budget_ms": 1.0},
        limit_predicted_ms=1.0,
        chosen=Figures(**figures),
        gap=0.0,
        solve_seconds=0.1,
        argmax=ArgmaxFigures(**figures, within_limits=True),
        candidates=[CandidateFigures(**figures, measured_ms=MEASURED, verdict="chosen")],
        sizes=[Figures(**figures)],
    )


def made_card(**changes: Any) -> ModelCard:
    fields: dict[str, Any] = {
        "run": {"name": "demo"},
        "input": {"name": "input"},
        "output": {"name": "logits"},
        "labels": list(LABELS),
        "resolution": 8,
        "normalization": {"mean": [0.5], "std": [0.2]},
        "genotype": GENOTYPE,
        "skeleton": SKELETON,
        "params": 100,
        "macs": 1000,
        "opset": 20,
        "oldest_onnxruntime": "1.17",
        "versions": {"torch": "2"},
        "budget_ms": 1.0,
        "percentile": 50,
        "certificate": made_certificate(),
        "sources_sha256": {"genotype.json": SHA},
        "test_accuracy": 0.9,
        "measured_ms": MEASURED,
        "noise_floor": 0.01,
        "file_mb": 0.1,
        "contract": [],
        "int8": None,
        "files": {},
    }
    return ModelCard(**fields | changes)


def _made_refusal() -> Refusal:
    shared = {"budget_ms", "percentile", "device", "sentinel_ms", "table_validated", "table_differences"}
    return Refusal(**made_certificate().model_dump(include=shared), fits=False, iterations=[])


def _made_alphas() -> Alphas:
    space = space_named("nasbench201")
    shape = (len(space.kinds[0].edges), len(space.kinds[0].operations))
    random = torch.Generator().manual_seed(0)
    return Alphas(space, "shifted", (torch.randn(shape, generator=random),), (torch.ones(shape),))


def _made_trained() -> Trained:
    torch.manual_seed(0)
    return Trained(Network(SKELETON, GENOTYPE), (0.5,), (0.2,), LABELS)


def _made_supernet() -> SupernetWeights:
    torch.manual_seed(0)
    return SupernetWeights(Supernet(SKELETON).state_dict())


def _made_judged() -> JudgedNetworks:
    space = space_named("darts")
    groups = [draw_fair_group(space, (0, number)) for number in range(3)]
    return JudgedNetworks(space, groups, [[0.5 + i for i in range(len(group))] for group in groups])


def _made_suspects() -> Suspects:
    suspect = Suspect(index=3, file="猫/1.png", label="a", proposed_label="b", weight=0.1, early_loss=4.5)
    weights = ClassWeights(label="a", images=2, mean_weight=0.9, share_below_half=0.5)
    return Suspects(detector="early_loss", train_images=2, guide_accuracy=0.9, suspects=[suspect], classes=[weights])


def _made_learned_images() -> LearnedImages:
    losses = torch.tensor([0.5, 4.0, 0.1])
    return LearnedImages(torch.arange(3), torch.ones(3), losses, torch.tensor([0, 1, 1]))


def _made_record() -> StageRecord:
    return StageRecord(
        stage="search",
        finished="2026-01-01T00:00:00+00:00",
        seconds=3.5,
        settings={"search.epochs": 3},
        inputs={"data": SHA},
        outputs={"alphas": SHA, "int8_model": None},
        versions={"alphas": 1},
    )


def made_mistakes() -> Mistakes:
    png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
    return Mistakes(wrong=3, shown=[Mistake(image=7, truth="猫", answer="a, b", confidence=0.9, png=png)])


def made_part_times(network: ChosenNetwork = NETWORK) -> PartTimes:
    parts_ms = {"": 0.05, "0": 0.1, "1/edges.0": 0.4, "1/edges.3": 0.15, "head": 0.2}
    return PartTimes(
        genotype_sha256=genotype_hash(network.genotype),
        skeleton=network.skeleton,
        device=FINGERPRINT,
        calls=60,
        parts_ms=parts_ms,
    )


def made_comparison(**changes: Any) -> Comparison:
    def entrant(name: str, kind: Any, accuracies: list[float]) -> Entrant:
        figures: dict[str, Any] = {"params": 100, "macs": 1000, "measured_ms": 0.9, "training_s": 3.0}
        return Entrant(name=name, kind=kind, width=1.0, accuracies=accuracies, **figures)

    fields: dict[str, Any] = {
        "percentile": 50,
        "budget_ms": 1.0,
        "noise_floor": 0.01,
        "device": FINGERPRINT,
        "on_target": True,
        "epochs": 2,
        "seeds": [0, 1],
        "train_images": 80,
        "test_images": 40,
        "entrants": [entrant("certified", "certified", [0.9, 0.95]), entrant("plain", "rival", [0.8, 0.85])],
        "unmatched": [Unmatched(name="resnet18", width=0.1, measured_ms=3.0)],
        "differences": [Difference(name="plain", mean=0.1, low=-0.02, high=0.22)],
        "sentence": "ours is ahead",
    }
    return Comparison(**fields | changes)


MADE: tuple[Callable[[], Typed], ...] = (
    _made_alphas,
    _made_supernet,
    _made_judged,
    lambda: NETWORK,
    made_selection,
    made_certificate,
    _made_refusal,
    _made_trained,
    made_metrics,
    _made_learned_images,
    _made_suspects,
    made_card,
    lambda: Labels(LABELS),
    made_table,
    _made_record,
    made_mistakes,
    made_part_times,
    made_comparison,
)
