"""Estimates of memory are lower bounds of what torch keeps, and near enough to be of use."""

from collections.abc import Callable

import pytest
import torch

from pipeline import memory
from pipeline.errors import UserError
from pipeline.memory import machine_bytes, require_memory
from pipeline.space.footprint import probe_bytes, supernet_bytes, training_bytes
from pipeline.space.genotype import Genotype
from pipeline.space.network import Network
from pipeline.space.skeleton import Skeleton
from pipeline.space.supernet import Supernet

SKELETON = Skeleton("darts", 3, 8, 16, 10, 1)


def saved_bytes(network: Callable[[torch.Tensor], torch.Tensor], images: int) -> int:
    """What autograd keeps for the backward pass, each storage once."""
    kept: dict[int, int] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        loss = network(torch.rand(images, 1, 16, 16)).sum()
    assert loss.requires_grad
    return sum(kept.values())


def test_a_training_step_takes_at_least_what_is_estimated_and_not_ten_times_as_much(darts_v2: Genotype) -> None:
    network, images = Network(SKELETON, darts_v2), 32
    weights = 3 * 4 * sum(weight.numel() for weight in network.parameters())
    estimate = training_bytes(SKELETON, darts_v2, images)
    assert estimate <= weights + saved_bytes(network, images) <= 10 * estimate


def test_estimates_grow_with_what_they_are_of(darts_v2: Genotype) -> None:
    wide = Skeleton("darts", 3, 16, 16, 10, 1)
    for count in (lambda s, n: training_bytes(s, darts_v2, n), supernet_bytes, lambda s, n: probe_bytes([s], 5, n)):
        assert count(SKELETON, 1) < count(SKELETON, 2) < count(wide, 2)
    assert supernet_bytes(SKELETON, 0) > training_bytes(SKELETON, darts_v2, 0), "all operations have weights"


def test_a_supernet_takes_at_least_what_is_estimated() -> None:
    supernet, images = Supernet(SKELETON), 16
    weights = 3 * 4 * sum(weight.numel() for weight in supernet.parameters())
    mixture = [torch.full((len(kind.edges), len(kind.operations)), 0.1) for kind in supernet.space.kinds]
    estimate = supernet_bytes(SKELETON, images)
    assert estimate <= weights + saved_bytes(lambda x: supernet(x, mixture), images) <= 20 * estimate


def test_what_does_not_fit_is_refused_with_both_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 1e8 < machine_bytes() < 1e15
    monkeypatch.setattr(memory, "machine_bytes", lambda: 24_000_000_000)
    require_memory(24e9, "this", "that")
    with pytest.raises(UserError, match="the search needs about 120 GB, 24 GB are here; lower \\[search\\] channels"):
        require_memory(120e9, "the search", "[search] channels")
