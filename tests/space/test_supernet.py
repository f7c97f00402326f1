"""The supernet against the network it contains."""

from typing import Any

import pytest
import torch

from pipeline.errors import UserError
from pipeline.space.cells import Space
from pipeline.space.genotype import Genotype, genotype_from_record
from pipeline.space.network import Network
from pipeline.space.score import argmax_genotype
from pipeline.space.skeleton import Skeleton
from pipeline.space.spaces import SPACE_NAMES, space_named
from pipeline.space.supernet import Supernet, inherit_weights
from tests.space.plain import PlainSupernet

SKELETONS = [
    Skeleton("darts", cells=4, channels=4, resolution=16, classes=5),
    Skeleton("darts", cells=3, channels=4, resolution=64, classes=5, in_channels=1, stem="imagenet"),
    Skeleton("nasbench201", cells=4, channels=4, resolution=16, classes=5),
    Skeleton("mobile", cells=22, channels=8, resolution=16, classes=5),
    Skeleton("nasbench-macro", cells=8, channels=4, resolution=16, classes=5),
]


def random_genotype(space: Space, seed: int) -> Genotype:
    generator = torch.Generator().manual_seed(seed)
    scores = [torch.rand(len(k.edges), len(k.operations), generator=generator) for k in space.kinds]
    for kind, score in zip(space.kinds, scores, strict=True):
        score[:, [operation not in kind.choosable for operation in kind.operations]] = -1
    return argmax_genotype(space, scores)


def one_hot(space: Space, genotype: Genotype) -> list[torch.Tensor]:
    rows = [torch.zeros(len(kind.edges), len(kind.operations), dtype=torch.float64) for kind in space.kinds]
    for kind, row in zip(space.kinds, rows, strict=True):
        for kept in genotype.kept(kind):
            row[kept.edge, kind.operations.index(kept.operation)] = 1
    return rows


@pytest.mark.parametrize("skeleton", SKELETONS, ids=lambda s: f"{s.space}-{s.stem}")
@pytest.mark.parametrize(("affine", "pool_bn"), [(False, True), (True, False)])
@pytest.mark.parametrize("training", [True, False])
def test_one_hot_supernet_is_the_network(skeleton: Skeleton, affine: bool, pool_bn: bool, training: bool) -> None:
    torch.manual_seed(0)
    space = space_named(skeleton.space)
    supernet = Supernet(skeleton, affine, pool_bn).double().train(training)
    x = torch.randn(3, skeleton.in_channels, skeleton.resolution, skeleton.resolution, dtype=torch.float64)
    for seed in range(3):
        genotype = random_genotype(space, seed)
        network = Network(skeleton, genotype, affine, pool_bn).double().train(training)
        inherit_weights(network, supernet)
        torch.testing.assert_close(supernet(x, one_hot(space, genotype)), network(x), rtol=0, atol=1e-10)


@pytest.mark.parametrize("skeleton", SKELETONS, ids=lambda s: f"{s.space}-{s.stem}")
def test_the_supernet_is_every_operation_on_every_edge(skeleton: Skeleton) -> None:
    """Mixed weights: output and gradients are those of the plain evaluation."""
    torch.manual_seed(0)
    supernet = Supernet(skeleton).double()
    plain = PlainSupernet(supernet).double()
    x = torch.randn(3, skeleton.in_channels, skeleton.resolution, skeleton.resolution, dtype=torch.float64)
    shapes = [(len(kind.edges), len(kind.operations)) for kind in supernet.space.kinds]
    weights = [torch.rand(shape, dtype=torch.float64).softmax(-1).requires_grad_() for shape in shapes]
    outputs = [network(x, weights) for network in (supernet, plain)]
    torch.testing.assert_close(*outputs, rtol=0, atol=1e-10)
    stems = [next(network.parameters()) for network in (supernet, plain)]
    first, second = (
        torch.autograd.grad(output.square().sum(), [*weights, stem])
        for output, stem in zip(outputs, stems, strict=True)
    )
    for ours, theirs in zip(first, second, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("skeleton", SKELETONS, ids=lambda s: f"{s.space}-{s.stem}")
@pytest.mark.parametrize(("affine", "pool_bn"), [(False, True), (True, False)])
@pytest.mark.parametrize("training", [True, False])
def test_a_network_run_alone_is_the_one_hot_mixture(
    skeleton: Skeleton, affine: bool, pool_bn: bool, training: bool
) -> None:
    """Output and gradients; operations that are not chosen get none."""
    torch.manual_seed(0)
    supernet = Supernet(skeleton, affine, pool_bn).double().train(training)
    weights = list(supernet.parameters())
    with torch.no_grad():
        for tensor in (*weights, *(buffer for buffer in supernet.buffers() if buffer.is_floating_point())):
            tensor.add_(0.1 * torch.rand_like(tensor))  # copies must not be alike
    x = torch.randn(3, skeleton.in_channels, skeleton.resolution, skeleton.resolution, dtype=torch.float64)
    for seed in range(3):
        genotype = random_genotype(supernet.space, seed)
        alone, mixed = supernet.run(x, genotype), supernet(x, one_hot(supernet.space, genotype))
        torch.testing.assert_close(alone, mixed, rtol=0, atol=1e-10)
        ours = torch.autograd.grad(alone.square().sum(), weights, materialize_grads=True, allow_unused=True)
        theirs = torch.autograd.grad(mixed.square().sum(), weights)
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def test_auxiliary_head_and_drop_path_leave_no_trace_in_evaluation(darts_v2: Genotype) -> None:
    skeleton = Skeleton("darts", cells=3, channels=4, resolution=12, classes=5)
    torch.manual_seed(0)
    plain = Network(skeleton, darts_v2).eval()
    trained = Network(skeleton, darts_v2, auxiliary=True)
    trained.load_state_dict(plain.state_dict(), strict=False)
    trained.set_drop_path(0.3)
    x = torch.randn(2, 3, 12, 12)
    logits, side = trained.forward_with_auxiliary(x)
    assert side is not None and side.shape == logits.shape
    assert not torch.equal(trained(x), trained(x)), "drop-path must act in training"
    trained.load_state_dict(plain.state_dict(), strict=False)  # training moved the running statistics
    assert torch.equal(trained.eval()(x), plain(x))
    trained.train().set_drop_path(0.0)
    assert not any(len(getattr(part, "drop_paths", ())) for part in trained.modules())


def test_identities_are_never_dropped(darts_v2: Genotype) -> None:
    network = Network(Skeleton("darts", cells=1, channels=4, resolution=8, classes=2), darts_v2)
    network.set_drop_path(0.5)
    cell: Any = network.parts[1]
    identities = {name for name, operation in cell.edges.items() if isinstance(operation, torch.nn.Identity)}
    assert identities and set(cell.drop_paths) == set(cell.edges) - identities


def test_stochastic_depth_drops_what_a_shortcut_passes_by() -> None:
    """A layer without a shortcut is the only way through, and is never dropped."""
    skeleton = Skeleton("nasbench-macro", cells=8, channels=4, resolution=16, classes=2)
    layers = ["mb3_k3", "mb6_k5", "mb3_k3", "skip", "mb6_k5", "mb3_k3", "skip", "skip"]
    network = Network(skeleton, genotype_from_record({"space": "nasbench-macro", "layers": layers}))
    network.set_drop_path(0.999)  # practically always
    torch.manual_seed(0)
    x = torch.randn(4, 4, 16, 16)
    for name, part in zip(layers, network.parts[1:9], strict=True):
        y = part([x])
        shortcut = name.startswith("mb") and y.shape == x.shape
        assert torch.equal(y, x) == (shortcut or name == "skip")
        x = y.detach()
    network.set_drop_path(0.0)
    assert not any(type(module).__name__ == "DropPath" for module in network.modules())


def test_a_genotype_of_another_space_is_refused(darts_v2: Genotype) -> None:
    with pytest.raises(UserError, match="nasbench201"):
        Network(Skeleton("nasbench201", cells=3, channels=4, resolution=16, classes=5), darts_v2)


def test_genotype_round_trip() -> None:
    for name in SPACE_NAMES:
        genotype = random_genotype(space_named(name), 7)
        assert genotype_from_record(genotype.record()) == genotype
