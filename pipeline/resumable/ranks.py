"""Many devices: what a launcher (torchrun) says about this process, and averages over all of them.

Every rank holds the same weights and the same alpha at every step: each computes on its shard of the batch, everything
that enters an update is averaged first, and only the writer touches the disk. With one process all of this is free.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import NamedTuple, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from pipeline.console import launched_processes, said_by_launcher
from pipeline.errors import Interrupted, UserError

T = TypeVar("T")
R = TypeVar("R")
_TIMEOUT = timedelta(minutes=30)


class World(NamedTuple):
    """Which process this is, and of how many."""

    rank: int
    size: int

    @property
    def is_writer(self) -> bool:
        """The one rank that writes files and talks to the user."""
        return self.rank == 0


def world() -> World:
    """This process among its peers; alone when there are none."""
    return World(dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else World(0, 1)


def is_writer() -> bool:
    return world().is_writer


@contextmanager
def joined(device: torch.device) -> Iterator[torch.device]:
    """Join the ranks that the launcher started, and leave them in the end; the device is this rank's own.

    Without a launcher (no WORLD_SIZE in the environment, or a group that the caller opened) nothing happens.
    A peer that dies becomes one sentence here, whatever the backend raised.
    """
    if dist.is_initialized() or launched_processes() == 1:
        yield device
        return
    if device.type == "cuda":
        device = torch.device("cuda", said_by_launcher("LOCAL_RANK", 0))
        torch.cuda.set_device(device)
    try:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=_TIMEOUT)
    except (ValueError, RuntimeError) as error:
        raise UserError(f"cannot join the other processes: {_first_line(error)}; start them with torchrun") from None
    try:
        yield device
    finally:
        dist.destroy_process_group()


def average(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The mean of each tensor over all ranks, as new tensors of the same dtype.

    It is what `pipeline.bilevel` takes as `reduce`: every Hessian product is averaged before the next one.
    One message per dtype, however many tensors there are; all ranks receive the same bits.
    """
    if world().size == 1:
        return list(tensors)
    means: dict[int, Tensor] = {}
    for dtype in dict.fromkeys(tensor.dtype for tensor in tensors):
        members = [(index, tensor) for index, tensor in enumerate(tensors) if tensor.dtype == dtype]
        flat = torch.cat([tensor.detach().reshape(-1) for _, tensor in members])
        with peers_watched():
            dist.all_reduce(flat)
        flat /= world().size
        for (index, tensor), part in zip(members, torch.split(flat, [t.numel() for _, t in members]), strict=True):
            means[index] = part.view(tensor.shape)
    return [means[index] for index in range(len(tensors))]


def average_(tensors: Sequence[Tensor]) -> None:
    """Replace each tensor by its mean over all ranks."""
    if world().size > 1:
        with torch.no_grad():
            for tensor, mean in zip(tensors, average(tensors), strict=True):
                tensor.copy_(mean)


def broadcast(value: T) -> T:
    """The writer's value on every rank."""
    if world().size == 1:
        return value
    box = [value]
    with peers_watched():
        dist.broadcast_object_list(box, src=0)
    return box[0]


def gather(value: T) -> list[T]:
    """The values of all ranks, in their order, on every rank."""
    if world().size == 1:
        return [value]
    box: list[T] = [value] * world().size
    with peers_watched():
        dist.all_gather_object(box, value)
    return box


def share_out(work: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    """The results of the writer's items in their order, a round at a time; in each round every rank works on one."""
    for first in range(0, len(items), world().size):
        yield from _work_round(work, items[first : first + world().size])


def assist(work: Callable[[T], R]) -> None:
    """What the other ranks do while the writer shares out work: one item of every round, until it has no more."""
    nothing: Sequence[T] = ()
    while _work_round(work, nothing):
        pass


@contextmanager
def assisted(device: torch.device) -> Iterator[None]:
    """The writer's part: the others assist until the block is done; when it fails, its end is theirs."""
    with joined(device):
        yield
        broadcast(())


def _work_round(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    items = broadcast(items)
    mine = [work(item) for item in items[world().rank : world().rank + 1]]
    return [result for part in gather(mine) for result in part] if items else []


def wait_for_all() -> None:
    """Go on when all ranks are here."""
    if world().size > 1:
        with peers_watched():
            dist.barrier()


def share_of(batch_size: int) -> int:
    """How many images of a batch this rank computes; the batch must divide evenly."""
    size = world().size
    if batch_size % size:
        lower = batch_size - batch_size % size or size
        raise UserError(f"batch_size = {batch_size} does not divide among {size} processes; use {lower}")
    return batch_size // size


@contextmanager
def peers_watched() -> Iterator[None]:
    """A peer that is gone makes the backend fail in its own words; say it in ours."""
    try:
        yield
    except RuntimeError as error:
        raise Interrupted(
            f"another process of this job died or hangs (rank {world().rank} noticed: {_first_line(error)}); "
            "run the same command to go on from the last checkpoint"
        ) from None


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:160] if str(error).strip() else type(error).__name__
