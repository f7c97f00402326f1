"""Retraining measured: a certified network against networks a user would pick instead, at the same latency.

    python -m benchmarks.retrain --run NAME [--project DIR] [--minutes 15] [--work runs/benchmarks/retrain]
    python -m benchmarks.retrain --genotype F --cells 8 --channels 16 [--epochs 12] [--images 25000]

The rivals (timm's mobilenetv3_small and efficientnet_lite0, a plain 3x3 CNN) are widened or narrowed until their
measured latency is that of the certified network, and trained the same: loader, recipe, epochs. Prints markdown.
What was fitted and trained is kept in the work folder: a run that was stopped goes on where it was.
"""

import argparse
import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from benchmarks.rivals import RIVALS, Shape, count_macs, fit_width, measure_p50_ms
from pipeline.artifacts.network import ChosenNetwork
from pipeline.config import DataConfig, RetrainConfig
from pipeline.console import say
from pipeline.data import Batch, ImageData, batches, load_data
from pipeline.data.normalization import Normalization
from pipeline.latency.devices import open_device
from pipeline.latency.measure import Effort
from pipeline.resumable.checkpoint import hash_of
from pipeline.rundir import RunDir, read_json, write_json
from pipeline.space.genotype import read_genotype
from pipeline.space.network import Network
from pipeline.space.skeleton import Skeleton
from pipeline.training.job import Job
from pipeline.training.loop import train
from pipeline.training.measures import measure, predict
from pipeline.training.precision import Precision
from pipeline.training.step import Model, Stepper, model_of, plain_model, seed_all

CPU = torch.device("cpu")
Step = Callable[[Tensor, Tensor], object]

BATCH = 96
DATA = Path(__file__).parents[2] / "shared" / "data" / "cifar10" / "cifar10_subset.npz"


class Throughput(NamedTuple):
    """Images per second of a training step: ours, and the loop of a tutorial in both memory formats."""

    ours: float
    plain: float
    plain_channels_last: float

    def __str__(self) -> str:
        return (
            f"{self.ours:.0f} images/s; a plain loop {self.plain:.0f} ({self.ours / self.plain:.2f}x), the same in "
            f"channels_last {self.plain_channels_last:.0f} ({self.ours / self.plain_channels_last:.2f}x)"
        )


def compare_throughput(network: Network, data: ImageData, steps: int) -> Throughput:
    """Our step (clipping and averaged weights included) and plain ones, in turn on the same batches; quartiles."""
    recipe = RetrainConfig(batch_size=BATCH, auxiliary=0.0, drop_path=0.0, precision="float32")
    ours = deepcopy(network).to(memory_format=torch.channels_last)
    normalize = Normalization(data.mean, data.std, CPU, channels_last=True)
    stepper = Stepper(model_of(ours), recipe, normalize, Precision("float32", CPU), data.classes, 100, 0)
    contenders: list[Step] = [
        lambda images, labels: stepper.step(Batch(images, labels, torch.arange(len(labels))), 0),
        plain_step(network, data, torch.contiguous_format),
        plain_step(network, data, torch.channels_last),
    ]
    served = batches(data.train_all, BATCH, seed=0, epoch=0, augment=data.config.augment, drop_last=True)
    times_s = [[seconds(step, batch) for step in contenders] for batch in islice(served, steps)]
    return Throughput(*(BATCH / sorted(column)[steps // 4] for column in zip(*times_s, strict=True)))


def plain_step(network: Network, data: ImageData, memory_format: torch.memory_format) -> Step:
    """One step as a tutorial writes it; our loader's images are brought into its memory format beforehand."""
    model = deepcopy(network).train().to(memory_format=memory_format)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.025, momentum=0.9, weight_decay=3e-4, nesterov=True)
    mean, std = (torch.tensor(values).view(1, -1, 1, 1) for values in (data.mean, data.std))

    def step(images: Tensor, labels: Tensor) -> None:
        images = images.contiguous(memory_format=memory_format)
        loss = nn.functional.cross_entropy(model((images - mean) / std), labels)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def seconds(step: Step, batch: Batch) -> float:
    start = time.perf_counter()
    step(batch.images, batch.labels)
    return time.perf_counter() - start


class Plan(NamedTuple):
    """What is decided by measuring, once, and kept for a run that goes on later."""

    epochs: int
    widths: dict[str, float]


def make_plan(options: argparse.Namespace, network: Network, data: ImageData, images: int, shape: Shape) -> Plan:
    path = Path(options.work) / "plan.json"
    if path.is_file():
        return Plan(**read_json(path))
    speed = compare_throughput(network, data, options.steps)
    print(f"training the certified network, batch {BATCH}, {options.threads} threads: {speed}\n", flush=True)
    device, effort, widths = open_device("cpu", 1, 1), Effort(rounds=options.rounds, calls=6), {}
    for name, build in RIVALS.items():
        fit = fit_width(device, network, build, shape, effort)
        say(f"{name}: {fit.ratio:.2f} of the certified latency at width {fit.width:.2f}")
        widths[name] = fit.width
    plan = Plan(options.epochs or max(1, round(options.minutes * 60 * speed.ours / images)), widths)
    write_json(path, plan._asdict())
    return plan


def make_job(data: ImageData, recipe: RetrainConfig, folder: Path, images: int) -> Job:
    return Job(
        config=recipe,
        train=replace(data.train_all, indices=data.train_all.indices[:: -(-len(data.train_all) // images)]),
        holdout=None,
        classes=data.classes,
        normalize=Normalization(data.mean, data.std, CPU, channels_last=True),
        augment=data.config.augment,
        device=CPU,
        seed=0,
        workers=0,
        checkpoints=folder / "checkpoint",
        history=folder / "history.jsonl",
        tensorboard=None,
        config_hash=hash_of([recipe.model_dump(exclude={"checkpoint_s"}), images]),
    )


def train_one(name: str, model: Model, data: ImageData, job: Job) -> dict[str, Any]:
    """Train and test once; a finished network is not trained again."""
    path = job.history.with_name("row.json")
    if not path.is_file():
        say(f"training {name}")
        outcome = train(model, job)
        model.module.load_state_dict(outcome.deployed)
        measures = measure(predict(model.module, data.test, job.normalize))
        epochs = [entry["images_per_s"] for entry in outcome.history if entry.get("images_per_s")]
        speed = len(epochs) / sum(1 / images_per_s for images_per_s in epochs)
        write_json(path, {"top1": measures.top1, "calibration": measures.calibration_error, "images_per_s": speed})
    row: dict[str, Any] = read_json(path)
    return row


def read_certified(options: argparse.Namespace, data: ImageData) -> Network:
    seed_all(0)
    if options.run:
        chosen = ChosenNetwork.read(RunDir(Path(options.project).absolute(), options.run).genotype)
        return Network(chosen.skeleton, chosen.genotype)
    genotype = read_genotype(Path(options.genotype))
    skeleton = Skeleton(
        genotype.space, options.cells, options.channels, data.config.resolution, data.classes, data.in_channels
    )
    return Network(skeleton, genotype)


def main() -> None:
    options = parse_options()
    torch.set_num_threads(options.threads)
    path = str(Path(options.data).absolute())
    data = load_data(
        DataConfig(format="npz", path=path, resolution=32, colour=True, augment="crop-flip-cutout"), Path(), 0
    )
    images = min(options.images, len(data.train_all))
    shape = (data.in_channels, data.config.resolution, data.config.resolution)
    network = read_certified(options, data)
    plan = make_plan(options, network, data, images, shape)
    modules: dict[str, nn.Module] = {"certified": network}
    for name, width in plan.widths.items():
        seed_all(0)
        modules[name] = RIVALS[name](width)
    p50_ms = measure_p50_ms(open_device("cpu", 1, 1), modules, shape, Effort(rounds=options.rounds, calls=6))
    recipe = RetrainConfig(
        epochs=plan.epochs, batch_size=BATCH, lr=options.lr, auxiliary=0.0, drop_path=0.0, ema=0.99, precision="float32"
    )
    print(f"{images} training images of {Path(path).name}, {plan.epochs} epochs, the same recipe for all\n")
    print("| network | width | params | MACs | p50 ms | images/s | minutes | test top-1 | calibration error |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, module in modules.items():
        macs, params = count_macs(module, shape), sum(p.numel() for p in module.parameters())
        module.to(memory_format=torch.channels_last)
        model = model_of(network) if module is network else plain_model(module)
        row = train_one(name, model, data, make_job(data, recipe, Path(options.work) / name, images))
        minutes = images * plan.epochs / row["images_per_s"] / 60
        print(
            f"| {name} | {plan.widths.get(name, 1.0):.2f} | {params:,} | {macs / 1e6:.1f} M | {p50_ms[name]:.3f} "
            f"| {row['images_per_s']:.0f} | {minutes:.1f} | {row['top1']:.2%} | {row['calibration']:.1%} |",
            flush=True,
        )


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", default="", help="a run whose discretize stage is done")
    parser.add_argument("--project", default=".", help="the folder of that run's pipeline.toml")
    parser.add_argument("--genotype", default="", help="a genotype file, instead of a run")
    parser.add_argument("--cells", type=int, default=8)
    parser.add_argument("--channels", type=int, default=16)
    parser.add_argument("--data", default=str(DATA))
    parser.add_argument("--images", type=int, default=1_000_000, help="training images to use")
    parser.add_argument(
        "--minutes", type=float, default=15.0, help="of the certified network; all train as many epochs"
    )
    parser.add_argument("--epochs", type=int, default=0, help="instead of --minutes")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--rounds", type=int, default=20, help="timing rounds")
    parser.add_argument("--steps", type=int, default=12, help="steps of the throughput comparison")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--work", default="runs/benchmarks/retrain")
    options = parser.parse_args()
    if bool(options.run) == bool(options.genotype):
        parser.error("name one of --run and --genotype")
    return options


if __name__ == "__main__":
    main()
