"""How fast the supernet is, against every operation on every edge on its own in the default memory format.

    python -m benchmarks.supernet [--rounds 8] [--batch 32] [--compile]

One training gradient each, in turn; CPU time of the process, lower quartiles of the rounds. Prints markdown.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from torch.nn import functional

from pipeline.space.skeleton import Skeleton
from pipeline.space.supernet import Supernet
from tests.space.plain import PlainSupernet

SKELETONS = (Skeleton("darts", 5, 8, 32, 10), Skeleton("nasbench201", 3, 16, 32, 10))


def gradient_of(supernet: Supernet, batch: int, layout: torch.memory_format, compiled: bool) -> Callable[[], None]:
    """A function that takes one training gradient."""
    supernet.to(memory_format=layout).train()
    run = torch.compile(supernet) if compiled else supernet
    skeleton = supernet.skeleton
    images = torch.randn(batch, 3, skeleton.resolution, skeleton.resolution).contiguous(memory_format=layout)
    labels = torch.randint(skeleton.classes, (batch,))
    weights = [
        torch.full((len(kind.edges), len(kind.operations)), 1 / len(kind.operations)) for kind in supernet.space.kinds
    ]
    parameters = list(supernet.parameters())

    def take() -> None:
        torch.autograd.grad(functional.cross_entropy(run(images, weights), labels), parameters, allow_unused=True)

    return take


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--compile", action="store_true", help="a third column, with torch.compile")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(
        "| supernet | every edge on its own, s | ours, s | ratio |"
        + (" compiled, s | compiling, s |" * options.compile)
    )
    print("|---|---|---|---|" + "---|---|" * options.compile)
    for skeleton in SKELETONS:
        torch.manual_seed(0)
        ours = Supernet(skeleton)
        takers = [
            gradient_of(PlainSupernet(ours), options.batch, torch.contiguous_format, False),
            gradient_of(ours, options.batch, torch.channels_last, False),
        ]
        if options.compile:
            takers.append(gradient_of(Supernet(skeleton), options.batch, torch.channels_last, True))
        warm_s = [_time(take, time.perf_counter) for take in takers]
        rounds = [[_time(take, time.process_time) for take in takers] for _ in range(options.rounds)]
        plain_s, ours_s, *compiled_s = np.percentile(rounds, 25, axis=0)
        row = f"| {skeleton.space} {skeleton.cells} / {skeleton.channels} | {plain_s:.3f} | {ours_s:.3f} "
        row += f"| {plain_s / ours_s:.2f} |"
        print(row + "".join(f" {s:.3f} | {warm_s[-1]:.0f} |" for s in compiled_s), flush=True)


def _time(take: Callable[[], None], clock: Callable[[], float]) -> float:
    start = clock()
    take()
    return clock() - start


if __name__ == "__main__":
    main()
