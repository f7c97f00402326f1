"""A whole run on disk without a search or a training: made artifacts, and histories of any length."""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from pipeline.artifacts.certificate import Certificate, Iteration
from pipeline.artifacts.document import Percentiles
from pipeline.artifacts.latency_table import LatencyTable
from pipeline.artifacts.metrics import ClassAccuracy, ConfidenceBin, Metrics
from pipeline.artifacts.mistakes import Mistake, Mistakes
from pipeline.artifacts.network import ChosenNetwork
from pipeline.config import Config, TargetConfig
from pipeline.config_file import render_config
from pipeline.latency.table import table_name
from pipeline.rundir import RunDir, budget_name
from pipeline.space.genotype import Genotype
from pipeline.space.skeleton import Skeleton
from pipeline.whole_files import write_json, write_text
from tests.artifacts.made import (
    GENOTYPE,
    SHA,
    made_card,
    made_certificate,
    made_comparison,
    made_mistakes,
    made_part_times,
    made_selection,
)
from tests.latency.fakes import FINGERPRINT
from tests.latency.made import made_table

NETWORK = ChosenNetwork(genotype=GENOTYPE, skeleton=Skeleton("nasbench201", 3, 4, 8, 3))
POOLS = "|avg_pool_3x3~0|+|none~0|avg_pool_3x3~1|+|none~0|skip_connect~1|avg_pool_3x3~2|"  # another cell
# names of classes that would be markup, break out of attributes, or turn the text around them
NASTY = (
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(2)'>",
    "</style></title><svg onload=alert(3)>",
    "🐈 & 🐕",
    "קטע \u202eevil\u202c מימין",
    "a\x00b\x1b[31m",
)


def made_history(epochs: int, genotype: Genotype = GENOTYPE) -> list[dict[str, Any]]:
    """What a search of so many epochs leaves: a line per architecture step and one per epoch."""
    entries: list[dict[str, Any]] = [{"step": 0, "hypergradient_check_cosine": 0.99}]
    for epoch in range(epochs):
        falling = 1 / (1 + epoch)
        step = {"train_loss": 2 * falling, "validation_loss": 2.1 * falling, "expected_ms": 0.8 + falling}
        entries.append({"step": 4 * epoch + 4, "epoch": epoch, **step, "penalty_lambda": 1.0, "gamma_halvings": 0})
        guards = {"entropy": 0.9, "margin_mean": 0.1, "collapse": None, "genotype": genotype.record()}
        accuracy = {"soft_accuracy": 1 - falling / 2, "selected_accuracy": 1 - falling}
        entries.append({"step": 4 * epoch + 4, "epoch": epoch, **guards, **accuracy})
    return entries


def made_training(epochs: int) -> list[dict[str, Any]]:
    """What a training leaves; the best epoch on images kept aside is the last but one."""
    best = max(epochs - 1, 1)
    return [
        {
            "step": 10 * epoch,
            "epoch": epoch,
            "train_loss": 1 / epoch,
            "train_top1": 1 - 0.5 / epoch,
            "holdout_loss": 1.2 / epoch,
            "holdout_top1": 0.95 if epoch == best else 0.9,
            "lr": 0.1 / epoch,
        }
        for epoch in range(1, epochs + 1)
    ]


def made_metrics(labels: Sequence[str], weights: str = "averaged, best epoch") -> Metrics:
    count = len(labels)
    return Metrics(
        test_images=10 * count,
        test_loss=0.2,
        test_accuracy=0.9,
        test_top5=1.0,
        calibration_error=0.03,
        per_class=[ClassAccuracy(label=label, accuracy=0.9, images=10) for label in labels],
        confusion=[[9 if i == j else int(j == (i + 1) % count) for j in range(count)] for i in range(count)],
        calibration=[
            ConfidenceBin(confidence=0.35, accuracy=0.5, images=4),
            ConfidenceBin(confidence=0.97, accuracy=0.95, images=10 * count - 4),
        ],
        weights=weights,
        epochs=6,
        train_images=100,
        precision="float32",
        processes=1,
    )


@lru_cache
def _table(skeleton: Skeleton) -> LatencyTable:
    return made_table(skeleton, noise=0.03)


def write_history(path: Path, entries: Sequence[dict[str, Any]]) -> None:
    write_text(path, "".join(json.dumps(entry) + "\n" for entry in entries))


def made_run(
    project: Path, labels: Sequence[str] = ("a, b", "two", "猫"), epochs: int = 6, network: ChosenNetwork | None = None
) -> RunDir:
    """A finished run named demo, with everything that the page can show."""
    run = RunDir(project, "demo")
    network = network or NETWORK
    skeleton: Skeleton = network.skeleton
    config = Config(target=TargetConfig(space=skeleton.space, cells=skeleton.cells, channels=skeleton.channels))
    write_text(project / "pipeline.toml", render_config(config))
    write_text(run.config, render_config(config))
    write_json(run.environment, {"python": "3.11", "packages": {"torch": "2"}})
    network.write(run.genotype)
    made_selection().write(run.selection)
    rounds = [
        Iteration(
            limit_ms=1.0,
            predicted_ms=0.9 + 0.1 * number,
            measured_ms=Percentiles(p50=1.1 - 0.2 * number, p95=1.3, p99=1.4),
            noise_floor=0.02,
            cells=1,
            channels=4,
            genotype_sha256=SHA,
            fits=bool(number),
        )
        for number in range(2)
    ]
    made_certificate(network, iterations=rounds).write(run.certificate)
    _table(skeleton).write(run.tables / table_name(FINGERPRINT, skeleton.space))
    write_history(run.history("search"), made_history(epochs, network.genotype))
    write_history(run.history("retrain"), made_training(epochs))
    made_metrics(labels).write(run.metrics)
    shown = [one.model_copy(update={"truth": labels[0], "answer": labels[-1]}) for one in made_mistakes().shown]
    Mistakes(wrong=3, shown=[Mistake(**one.model_dump()) for one in shown]).write(run.mistakes)
    made_part_times(network).write(run.part_times)
    made_card(labels=list(labels)).write(run.model_card)
    made_comparison().write(run.comparison)
    return run


def add_budgets(run: RunDir) -> None:
    """Two budgets beside the run's own of 1 ms: the network for 0.5 ms was trained, that for 0.25 ms only certified."""
    certificate, metrics = Certificate.read(run.certificate), Metrics.read(run.metrics)
    for budget_ms in (1.0, 0.5, 0.25):
        own = replace(run, budget=budget_name(budget_ms))
        faster = Percentiles(p50=0.9 * budget_ms, p95=budget_ms, p99=budget_ms)
        certificate.model_copy(update={"budget_ms": budget_ms, "measured_ms": faster}).write(own.certificate)
        write_text(own.genotype, run.genotype.read_text())
        write_text(own.selection, run.selection.read_text())
    metrics.model_copy(update={"test_accuracy": 0.75}).write(replace(run, budget="0.5ms").metrics)
