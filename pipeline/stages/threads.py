"""How many threads small steps are worth.

A step on few small feature maps is made of operations so short that threads wait for each other: on two cores two
threads gain a tenth at 100,000 values and 1.5 at 500,000, at twice the computing; beside another program they are
slower than one (benchmarks/results/search-budget.md).
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from pipeline.openmp import threads_of_environment
from pipeline.space.skeleton import Skeleton
from pipeline.stages.context import Context

_FEW_VALUES = 200_000
_STEM_STRIDE = 4  # of the stem for large images


@contextmanager
def worthwhile_threads(context: Context, skeleton: Skeleton) -> Iterator[None]:
    """One thread for the search's batches in so small a network, unless a number was asked for; then as before."""
    compute, on_cpu = context.config.compute, context.device.type == "cpu"  # which sets the threads asked for
    before = torch.get_num_threads()
    asked = compute.threads or threads_of_environment()
    if not asked and on_cpu and _values(skeleton, context.config.search.batch_size) < _FEW_VALUES:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _values(skeleton: Skeleton, batch: int) -> int:
    """Of one feature map of the first cell."""
    side = skeleton.resolution // _STEM_STRIDE if skeleton.imagenet_stem else skeleton.resolution
    return batch * skeleton.channels * side**2
