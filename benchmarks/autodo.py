"""AutoDO beside what is simpler: plain training, training on the guide as well, and leaving out large losses.

    python -m benchmarks.autodo --rows digits-30 fashion-30 [--seeds 0 1 2] [--methods …] [--work FOLDER]

Test accuracy is that of the last epoch; nothing is chosen by it. Small-loss selection knows the share of wrong labels,
which nobody does outside a benchmark, and trains on the guide as well. Finished trainings are kept in the work folder.
Prints markdown.
"""

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

from benchmarks.autodo_data import CLASSES, Distorted, Sizes, distort, load_pool
from pipeline.autodo.augmentation import KINDS
from pipeline.autodo.parameters import Rows
from pipeline.autodo.rmsprop import RowRmsprop
from pipeline.autodo_config import AutodoConfig
from pipeline.config import Augment, RetrainConfig
from pipeline.data import ImageSet
from pipeline.training.job import Job, Outcome
from pipeline.training.loop import train
from pipeline.training.measures import measure, predict
from pipeline.training.step import plain_model, seed_all
from pipeline.whole_files import read_json, write_json

CPU = torch.device("cpu")
METHODS = ("plain", "plain + guide", "small-loss selection", "weights+labels")
LEARNED = "weights+labels"
FIXED, HELD = " and crop-flip", " as it starts"  # beside what is learned: an ordinary augmentation; λA stays as it is


@dataclass(frozen=True)
class Row:
    """A data set with its distortion, and the training that all methods share."""

    data: str
    sizes: Sizes
    epochs: int
    start_epoch: int
    lr: float
    augment: Augment = "none"
    autodo: dict[str, Any] = field(default_factory=dict)


ROWS = {
    "digits-30": Row("digits", Sizes(1200, 200, 390, flipped=0.3), 60, 5, 0.1),
    "digits-clean": Row("digits", Sizes(1200, 200, 390), 60, 5, 0.1),
    "fashion-30": Row("fashion", Sizes(5000, 1000, 10_000, flipped=0.3), 30, 5, 0.05),
    "fashion-imbalanced": Row("fashion", Sizes(10_000, 1000, 10_000, flipped=0.1, imbalance=100), 30, 5, 0.05),
    "fashion-clean": Row("fashion", Sizes(5000, 1000, 10_000), 30, 5, 0.05),
    "cifar-30": Row("cifar", Sizes(5000, 1000, 5000, flipped=0.3), 30, 5, 0.05, "crop-flip"),
    "fashion-turned": Row("fashion", Sizes(5000, 1000, 5000, flipped=0.3, turned=30.0), 8, 3, 0.05),
}
METHODS_OF = {
    "fashion-turned": ("plain + guide", LEARNED, LEARNED + FIXED, LEARNED + "+augmentation" + HELD,
                       LEARNED + "+augmentation"),
}  # fmt: skip


def make_network(data: str) -> nn.Module:
    """A small MLP for the digits, three convolutions for larger images."""
    if data == "digits":
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, CLASSES))
    widths = (3 if data == "cifar" else 1, 16, 32, 64)
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(256, CLASSES))


@contextmanager
def held_augmentation(held: bool) -> Iterator[None]:
    """λA keeps the probabilities and magnitudes that it starts with."""
    step = RowRmsprop.step

    def without(self: RowRmsprop, numbers: Tensor, gradients: Rows, rate: float, number: int) -> None:
        step(self, numbers, {name: one for name, one in gradients.items() if name != "augmentation"}, rate, number)

    with mock.patch.object(RowRmsprop, "step", without) if held else nullcontext():
        yield


def train_on(images: ImageSet, data: Distorted, row: Row, learn: str, seed: int, folder: Path) -> Outcome:
    """The outcome of one training; its network is seeded alike for all methods."""
    seed_all(seed)
    job = Job(
        config=RetrainConfig(
            epochs=row.epochs, batch_size=64, lr=row.lr, weight_decay=1e-4, ema=0.0, auxiliary=0.0, drop_path=0.0,
            precision="float32", checkpoint_s=1e9,
        ),
        train=images, holdout=None, classes=CLASSES, normalize=data.normalize, augment=row.augment, device=CPU,
        seed=seed, workers=0, checkpoints=folder / "checkpoint", history=folder / "history.jsonl", tensorboard=None,
        config_hash=f"{learn} {len(images)}",
        autodo=AutodoConfig(learn=learn, guide_share=0.5, start_epoch=row.start_epoch, **row.autodo),  # type: ignore[arg-type]
        guide=data.guide if learn != "off" else None,
    )  # fmt: skip
    return train(plain_model(make_network(row.data)), job)


def run_method(method: str, data: Distorted, row: Row, seed: int, folder: Path) -> dict[str, Any]:
    """Accuracy, and where images were judged, how well."""
    learn, images = "off", data.train
    if method == "plain + guide":
        images = data.chosen(data.train.indices, data.guide.indices)
    elif method == "small-loss selection":
        early = torch.tensor(read_json(folder.parent / "weights+labels" / "row.json")["early"])
        kept = early.argsort()[: round((1 - row.sizes.flipped) * len(early))]
        images = data.chosen(data.train.indices[kept], data.guide.indices)
    elif method != "plain":
        learn = method.removesuffix(FIXED).removesuffix(HELD)
    if method.endswith(FIXED):
        row = replace(row, augment="crop-flip")
    cpu = time.process_time()
    with held_augmentation(method.endswith(HELD)):
        outcome = train_on(images, data, row, learn, seed, folder)
    found: dict[str, Any] = {"cpu_s": time.process_time() - cpu}
    module = make_network(row.data)
    module.load_state_dict(outcome.last)
    found["top1"] = measure(predict(module, data.test, data.normalize)).top1
    if outcome.learned is not None:
        learned = outcome.learned
        found["early"] = learned.early_losses.tolist()
        if learned.augmentation is not None:
            found["augmentation"] = dict(zip(KINDS, learned.augmentation.mean(0).view(2, -1).T.tolist(), strict=True))
        if row.sizes.flipped:
            found["right_proposals"] = right(learned.proposed, data)
            found["auroc_weight"] = roc_auc_score(data.flipped, -learned.weights)
            found["auroc_early"] = roc_auc_score(data.flipped, learned.early_losses)
    return found


def right(proposed: Tensor, data: Distorted) -> float:
    """Share of the images with a wrong label whose proposed one is right."""
    return float((proposed == data.truth)[data.flipped].float().mean())


def print_row(name: str, results: dict[str, list[dict[str, Any]]]) -> None:
    for method, found in results.items():
        cells = [
            name,
            method,
            _mean([one["top1"] for one in found], 100),
            f"{np.mean([one['cpu_s'] for one in found]):.0f}",
        ]
        for key in ("auroc_weight", "auroc_early", "right_proposals"):
            cells.append(_mean([one[key] for one in found], 1) if key in found[0] else "")
        print("| " + " | ".join(cells) + " |", flush=True)


def _mean(values: list[float], scale: float) -> str:
    digits = 1 if scale == 100 else 3
    return f"{scale * np.mean(values):.{digits}f} ± {scale * np.std(values):.{digits}f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--methods", nargs="+", help="by default those of the row")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--work", default="runs/benchmarks/autodo")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| data | method | test top-1 % | CPU s | AUROC weight | AUROC early loss | right proposals |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for name in options.rows:
        row, pool = ROWS[name], load_pool(ROWS[name].data)
        results: dict[str, list[dict[str, Any]]] = {}
        # early losses, which small-loss selection needs, come with weights+labels
        methods = options.methods or METHODS_OF.get(name, METHODS)
        for method in sorted(methods, key=lambda one: one == "small-loss selection"):
            for seed in options.seeds:
                folder = Path(options.work) / name / str(seed) / method
                if not (folder / "row.json").is_file():
                    write_json(
                        folder / "row.json", run_method(method, distort(*pool, row.sizes, seed), row, seed, folder)
                    )
                results.setdefault(method, []).append(read_json(folder / "row.json"))
        print_row(name, results)


if __name__ == "__main__":
    main()
