"""What a teacher gains over plain training, and what weights of the search gain over random ones, at equal epochs.

    python -m benchmarks.teacher --rows cifar-16 fashion-16 [--seeds 0 1 2] [--work runs/benchmarks/teacher]
    python -m benchmarks.teacher --rows cifar-certified --student runs/NAME/discretize/genotype.json

Teacher and student are trained by the loop of `pipeline retrain` on the same images; the student, a residual cell or
the network that `pipeline discretize` has certified on the same data, is timed as it is certified. Test accuracy is
that of the averaged weights after the last epoch; nothing is chosen by it. Finished trainings are kept in the work
folder, and unfinished ones go on. Seconds are CPU time, of trainings that one process did. Prints markdown.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.autodo_data import CIFAR
from benchmarks.hyper_cleaning_problem import FASHION
from pipeline.artifacts.alphas import SupernetWeights
from pipeline.artifacts.network import ChosenNetwork
from pipeline.artifacts.trained import Trained
from pipeline.budget.limits import Limit
from pipeline.config import Augment, ComputeConfig, DataConfig, RetrainConfig, TargetConfig
from pipeline.data import ImageData, ImageSet, load_data
from pipeline.data.normalization import Normalization
from pipeline.latency.target import TargetMachine
from pipeline.resumable.checkpoint import hash_of
from pipeline.rivals.verdict import compare_seeds
from pipeline.search.engine import Search
from pipeline.search.loop import SearchFiles, run_search
from pipeline.search.objective import Constraint
from pipeline.search_config import SearchConfig
from pipeline.space.costs import mac_costs
from pipeline.space.genotype import genotype_from_record
from pipeline.space.network import Network
from pipeline.space.score import relative_prices
from pipeline.space.shared_weights import take_from_supernet
from pipeline.space.skeleton import Skeleton
from pipeline.space.spaces import space_named
from pipeline.training.job import Job
from pipeline.training.loop import train
from pipeline.training.measures import measure, predict
from pipeline.training.step import model_of, seed_all
from pipeline.training.teacher import Teacher, TeacherInput
from pipeline.whole_files import read_json, sha256_of, write_json

CPU = torch.device("cpu")
METHODS = ("plain", "taught", "from the supernet")
# two convolutions in a row with a shortcut, and a third: a good cell of NAS-Bench-201 (a residual block)
GENOTYPE = genotype_from_record(
    {
        "space": "nasbench201",
        "cell": "|nor_conv_3x3~0|+|none~0|nor_conv_3x3~1|+|skip_connect~0|none~1|nor_conv_3x3~2|",
    }
)


@dataclass(frozen=True)
class Size:
    """Cells per stage, channels of the first and epochs of training."""

    cells: int
    channels: int
    epochs: int


@dataclass(frozen=True)
class Row:
    """A data set, how much of it, the two networks, and the search whose weights one student starts from."""

    data: DataConfig
    train: int
    test: int
    teacher: Size
    student: Size
    search_epochs: int
    augment: Augment
    recipe: dict[str, Any] = field(default_factory=dict)


def _cifar(resolution: int) -> DataConfig:
    return DataConfig(format="npz", path=str(CIFAR), resolution=resolution, colour=True)


def _fashion(resolution: int) -> DataConfig:
    return DataConfig(format="idx", path=str(FASHION), resolution=resolution)


ROWS = {
    "cifar-16": Row(_cifar(16), 5000, 5000, Size(2, 32, 10), Size(1, 8, 10), 3, "crop-flip"),
    "fashion-16": Row(_fashion(16), 4000, 5000, Size(2, 24, 5), Size(1, 8, 5), 3, "shift"),
    "cifar-certified": Row(_cifar(16), 10_000, 5000, Size(2, 32, 20), Size(1, 8, 20), 3, "crop-flip"),
    "fashion-certified": Row(_fashion(16), 10_000, 5000, Size(2, 24, 10), Size(1, 8, 10), 3, "shift"),
    # hours on two cores
    "cifar-32": Row(_cifar(32), 25_000, 5000, Size(4, 64, 40), Size(1, 16, 60), 30, "crop-flip"),
    "fashion-28": Row(_fashion(28), 60_000, 10_000, Size(3, 48, 20), Size(1, 16, 20), 10, "shift"),
}


class Bench:
    """All trainings of one row, kept below a folder."""

    def __init__(self, row: Row, folder: Path, settings: dict[str, Any], student: ChosenNetwork | None) -> None:
        self.row, self.folder, self.settings = row, folder, settings
        self.data: ImageData = load_data(row.data, Path(), 0)
        self.train, self.test = _some(self.data.train_all, row.train), _some(self.data.test, row.test)
        self.student = student or ChosenNetwork(genotype=GENOTYPE, skeleton=self.skeleton(row.student))

    def make_student(self) -> Network:
        return Network(self.student.skeleton, self.student.genotype)

    def make_teacher(self) -> Network:
        return Network(self.skeleton(self.row.teacher), GENOTYPE)

    def skeleton(self, size: Size) -> Skeleton:
        data = self.data
        return Skeleton(GENOTYPE.space, size.cells, size.channels, data.resolution, data.classes, data.in_channels)

    def run(self, method: str, seed: int) -> dict[str, Any]:
        """The student of one seed: what an earlier process left, or its training."""
        folder = self.folder / method.replace(" ", "-") / str(seed)
        if not (folder / "row.json").is_file():
            seed_all(seed)
            network = self.make_student()
            if method == "from the supernet":
                take_from_supernet(network, self.supernet())
            teacher = self.teacher() if method == "taught" else None
            write_json(folder / "row.json", self.fit(network, self.row.student, seed, folder, teacher))
        found: dict[str, Any] = read_json(folder / "row.json")
        return found

    def fit(self, network: Network, size: Size, seed: int, folder: Path, teacher: Teacher | None) -> dict[str, Any]:
        """Train by the recipe that all share; accuracy on the test images, and CPU seconds."""
        soft = {} if teacher is None else {"teacher": "teacher.safetensors", **self.settings}
        recipe = RetrainConfig(
            **{"epochs": size.epochs, "batch_size": 64, "lr": 0.1, "weight_decay": 5e-4, "ema": 0.99}  # type: ignore[arg-type]
            | {"auxiliary": 0.0, "drop_path": 0.0, "precision": "float32", "checkpoint_s": 60.0}
            | self.row.recipe
            | soft
        )
        data = self.data
        job = Job(
            config=recipe, train=self.train, holdout=None, classes=data.classes,
            normalize=Normalization(data.mean, data.std, CPU, channels_last=True), augment=self.row.augment, device=CPU,
            seed=seed, workers=0, checkpoints=folder / "checkpoint", history=folder / "history.jsonl",
            tensorboard=None, config_hash=hash_of([recipe.effective(), seed, size.cells, size.channels]),
            teacher=teacher,
        )  # fmt: skip
        network = network.to(memory_format=torch.channels_last)
        fresh, cpu = not job.checkpoints.exists(), time.process_time()
        outcome = train(model_of(network), job)
        spent = time.process_time() - cpu
        network.load_state_dict(outcome.deployed)
        top1 = measure(predict(network, self.test, job.normalize)).top1
        speed = {"cpu_s": spent, "images_per_s": size.epochs * len(self.train) / spent} if fresh else {}
        return {"top1": top1, **speed}

    def teacher(self) -> Teacher:
        """The larger network, trained first if it is not there."""
        path, data = self.folder / "teacher.safetensors", self.data
        if not path.is_file():
            seed_all(0)
            network = self.make_teacher()
            found = self.fit(network, self.row.teacher, 0, self.folder / "teacher", None)
            write_json(self.folder / "teacher" / "row.json", found)
            Trained(network, tuple(data.mean), tuple(data.std), data.labels).write(path)
        network = Trained.read(path).network.to(memory_format=torch.channels_last)
        view = TeacherInput(data.mean, data.std, CPU, True, data.resolution)
        return Teacher(path.name, sha256_of(path), view, network.requires_grad_(False), data.labels)

    def supernet(self) -> Any:
        """A supernet of the student's size after a search on the same images, under half of the most multiply-adds."""
        skeleton, path = self.student.skeleton, self.folder / "supernet.safetensors"
        if not path.is_file():
            space, costs = space_named(skeleton.space), mac_costs(skeleton)
            most = costs.fixed + sum(float(cost.max(1).sum()) for cost in costs.choices.values()) / 2
            limit = Limit("max_macs", costs, most, "MACs")
            constraint = Constraint(space, (limit,), tuple(relative_prices(space, costs)), "shifted")
            settings = SearchConfig(method="first-order", epochs=self.row.search_epochs, batch_size=64)
            halves = {"train": self.train.indices[::2], "validation": self.train.indices[1::2]}
            data = replace(self.data, split=self.data.split._replace(**halves))
            search = Search(settings, ComputeConfig(threads=1), data, skeleton, constraint, CPU)
            files = SearchFiles(*(self.folder / "search" / name for name in ("checkpoint", "history.jsonl", "board")))
            run_search(search, files, hash_of([settings.effective()]), 60.0)
            SupernetWeights(search.state.supernet.state_dict()).write(path)
        return SupernetWeights.read(path).build(skeleton)

    def latency_ms(self) -> float:
        """p50 of the student, as a certificate measures it."""
        path = self.folder / "latency.json"
        if not path.is_file():
            machine = TargetMachine.of(TargetConfig(), "onnxruntime")
            measured = machine.time_network(self.student.skeleton, self.student.genotype)
            write_json(path, {"p50_ms": measured.p50_ms, "noise_floor": measured.noise_floor})
        return float(read_json(path)["p50_ms"])


def _some(images: ImageSet, count: int) -> ImageSet:
    """The first images of every class, alike in number."""
    labels = images.targets[images.indices]
    classes = torch.unique(labels)
    share = count // len(classes)
    chosen = torch.cat([images.indices[labels == label][:share] for label in classes])
    return replace(images, indices=chosen.sort().values)


def print_row(name: str, bench: Bench, methods: Sequence[str], seeds: Sequence[int]) -> None:
    results = {method: [bench.run(method, seed) for seed in seeds] for method in methods}
    known = bench.folder / "teacher" / "row.json"
    if known.is_file():
        found = read_json(known)
        print(f"| {name} | the teacher | {100 * found['top1']:.1f} | | {_mean([found], 'cpu_s')} | |")
    plain = [one["top1"] for one in results.get("plain", [])]
    for method, rows in results.items():
        top1 = [one["top1"] for one in rows]
        gain = ""
        if method != "plain" and plain:
            row = compare_seeds(method, top1, plain)
            interval = "" if row.low is None or row.high is None else f" ({100 * row.low:+.1f} … {100 * row.high:+.1f})"
            gain = f"{100 * row.mean:+.2f}{interval}"
        cells = [
            name, method, f"{100 * np.mean(top1):.1f} ({', '.join(f'{100 * one:.1f}' for one in top1)})", gain,
            _mean(rows, "cpu_s"), _mean(rows, "images_per_s"),
        ]  # fmt: skip
        print("| " + " | ".join(cells) + " |", flush=True)


def _mean(rows: Sequence[dict[str, Any]], key: str) -> str:
    known = [row[key] for row in rows if key in row]
    return f"{np.mean(known):.0f}" if known else ""


def count(network: nn.Module) -> int:
    return sum(weight.numel() for weight in network.parameters())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=["cifar-16", "fashion-16"])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--student", type=Path, help="genotype.json of a run on the row's data and resolution")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--weight", type=float, default=RetrainConfig().teacher_weight, help="[retrain] teacher_weight")
    parser.add_argument("--temperature", type=float, default=RetrainConfig().temperature)
    parser.add_argument("--work", default="runs/benchmarks/teacher")
    options = parser.parse_args()
    torch.set_num_threads(1)
    settings = {"teacher_weight": options.weight, "temperature": options.temperature}
    student = None if options.student is None else ChosenNetwork.read(options.student)
    benches = {name: Bench(ROWS[name], Path(options.work) / name, settings, student) for name in options.rows}
    for name, bench in benches.items():
        sizes = [count(network) for network in (bench.make_student(), bench.make_teacher())]
        print(f"{name}: student {sizes[0]:,} weights, p50 {bench.latency_ms():.2f} ms; teacher {sizes[1]:,} weights")
    print("\n| data | training | test top-1 %, mean (seeds) | gain over plain, 95 % | CPU s | images per CPU s |")
    print("|---|---|---|---|---|---|", flush=True)
    for name, bench in benches.items():
        print_row(name, bench, options.methods, options.seeds)


if __name__ == "__main__":
    main()
