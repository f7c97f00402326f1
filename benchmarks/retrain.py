"""The speed of a training step, beside the loop of a tutorial; `pipeline compare` pits networks against each other.

python -m benchmarks.retrain --run NAME [--project DIR] [--steps 12] [--threads 2]
python -m benchmarks.retrain --genotype F --cells 8 --channels 16
"""

import argparse
import time
from collections.abc import Callable
from copy import deepcopy
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from pipeline.artifacts.network import ChosenNetwork
from pipeline.config import DataConfig, RetrainConfig
from pipeline.data import Batch, ImageData, batches, load_data
from pipeline.data.normalization import Normalization
from pipeline.rundir import RunDir
from pipeline.space.genotype_file import read_genotype
from pipeline.space.network import Network
from pipeline.space.skeleton import Skeleton
from pipeline.training.precision import Precision
from pipeline.training.step import Stepper, model_of, seed_all

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


def read_network(options: argparse.Namespace, data: ImageData) -> Network:
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
    speed = compare_throughput(read_network(options, data), data, options.steps)
    print(f"batch {BATCH}, {options.threads} threads: {speed}")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", default="", help="a run whose discretize stage is done")
    parser.add_argument("--project", default=".", help="the folder of that run's pipeline.toml")
    parser.add_argument("--genotype", default="", help="a genotype file, instead of a run")
    parser.add_argument("--cells", type=int, default=8)
    parser.add_argument("--channels", type=int, default=16)
    parser.add_argument("--data", default=str(DATA))
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    if bool(options.run) == bool(options.genotype):
        parser.error("name one of --run and --genotype")
    return options


if __name__ == "__main__":
    main()
