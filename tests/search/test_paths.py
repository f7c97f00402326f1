"""A search on a layer-wise space: sampled paths, the same ones within a step and after a resumption."""

from pathlib import Path
from typing import Any

import torch

from pipeline.bilevel import hypergradient
from pipeline.data import Batch
from pipeline.search.engine import Search
from pipeline.search.expectation import draw_fair_group
from pipeline.search.methods import make_method
from pipeline.space.paths import draw_paths
from pipeline.space.score import edge_weights
from pipeline.space.skeleton import Skeleton
from tests.search.problem import make_search

SKELETON = Skeleton("mobile", cells=22, channels=8, resolution=8, classes=3, in_channels=1)
GAMMA = 1e-5  # before training, the curvature of so deep a supernet is in the thousands


def make(folder: Path, **settings: Any) -> Search:
    return make_search(folder, skeleton=SKELETON, target=SKELETON, epochs=1, gamma=GAMMA, **settings)


def test_a_step_moves_the_weights_on_its_paths_and_no_others(tmp_path: Path) -> None:
    search = make(tmp_path)
    before = {name: weight.detach().clone() for name, weight in search.state.supernet.named_parameters()}
    search.advance()
    paths = search.losses.paths
    assert paths is not None
    moved = {name for name, weight in search.state.supernet.named_parameters() if not torch.equal(weight, before[name])}
    for index, (kind, mask) in enumerate(zip(search.constraint.space.kinds, paths, strict=True), start=1):
        drawn = {operation for operation, on in zip(kind.operations, mask[0], strict=True) if on} - {"skip"}
        holders = {name.split(".")[5] for name in moved if name.startswith(f"parts.{index}.")}
        assert holders == ({kind.operations[-1]} if drawn else set()), "the widest holds the weights of all"


def test_a_fair_step_trains_its_network_whatever_paths_the_space_samples(tmp_path: Path) -> None:
    search = make(tmp_path, paths="fair", weight_decay=0.0)
    assert search.steps_per_operation == search.total_steps, "every step trains a part of all"
    before = {name: weight.detach().clone() for name, weight in search.state.supernet.named_parameters()}
    search.advance()
    network = draw_fair_group(search.constraint.space, (0, 0, 0))[0]
    moved = {name for name, weight in search.state.supernet.named_parameters() if not torch.equal(weight, before[name])}
    for index, kind in enumerate(search.constraint.space.kinds, start=1):
        ((_, operation),) = network.kept(kind)
        holders = {name.split(".")[5] for name in moved if name.startswith(f"parts.{index}.")}
        assert holders == ({kind.operations[-1]} if operation != "skip" else set())
        for name in moved:
            if name.startswith(f"parts.{index}.") and before[name].shape[-1] == 7:  # only the middle of the kernel
                edge = (7 - int(operation.split("_")[1][1:])) // 2
                border = (search.state.supernet.get_parameter(name) - before[name]).detach()
                border[..., edge : 7 - edge, edge : 7 - edge] = 0
                assert not border.any()


def test_both_losses_of_a_step_take_the_paths_of_its_weight_step(tmp_path: Path) -> None:
    """The hypergradient again, on a second copy, with losses written out."""
    search, oracle = (make(tmp_path, inner_steps=1, method="t1t2") for _ in range(2))  # no gate turns it off
    report = search.advance()
    assert report is not None
    losses, state, constraint = oracle.losses, oracle.state, oracle.constraint
    train, validation = (losses.prepare(stream.batch(0)) for stream in (oracle.train, oracle.validation))
    oracle._draw_paths()
    oracle._step_weights(train, oracle._weight_lr())
    paths = draw_paths(constraint.space, edge_weights(state.alphas, constraint.prices, "shifted"), seed=0)
    weights = list(state.supernet.parameters())

    def loss(batch: Batch) -> torch.Tensor:
        logits = state.supernet(batch.images, edge_weights(state.alphas, constraint.prices, "shifted"), paths)
        return torch.nn.functional.cross_entropy(logits, batch.labels)

    expected = hypergradient(
        lambda w, a: loss(train) + losses.weight_decay / 2 * sum((x**2).sum() for x in weights),
        lambda w, a: constraint.penalize(loss(validation), state.alphas, 1.0),
        weights,
        state.alphas,
        make_method(oracle.config, GAMMA),
        buffers=list(state.supernet.buffers()),
    )
    found = [part + added for part, added in zip(report.gradient.gradient, report.gradient.penalty, strict=True)]
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-6)


def test_a_resumed_search_draws_the_same_paths(tmp_path: Path) -> None:
    through, stopped, resumed = (make(tmp_path) for _ in range(3))
    for _ in range(4):
        through.advance()
    for _ in range(2):
        stopped.advance()
    resumed.state.restore(stopped.state.record())
    for _ in range(2):
        resumed.advance()
    for ours, theirs in zip(resumed.state.alphas, through.state.alphas, strict=True):
        assert torch.equal(ours, theirs)
    states = resumed.state.supernet.state_dict(), through.state.supernet.state_dict()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
