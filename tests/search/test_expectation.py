"""The expected loss over networks: fair groups, and the gradient against sums over all networks."""

from collections import Counter
from itertools import product

import pytest
import torch
from torch import Tensor

from pipeline.search.expectation import draw_fair_group, expected_loss, log_chances
from pipeline.space.cells import Gene
from pipeline.space.genotype import Genotype
from pipeline.space.score import edge_weights
from pipeline.space.spaces import space_named

NB201 = space_named("nasbench201")
(KIND,) = NB201.kinds
OPERATIONS = ("skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")


@pytest.mark.parametrize("name", ["nasbench201", "darts"])
def test_a_group_is_fair(name: str) -> None:
    """No operation is on an edge twice, `none` never; where every edge is kept, each operation is there once."""
    space = space_named(name)
    for seed in range(5):
        group = draw_fair_group(space, (seed, 1))
        assert len(group) == max(len(kind.operations) - 1 for kind in space.kinds)
        for kind in space.kinds:
            counts = Counter(kept for network in group for kept in network.kept(kind))
            assert set(counts.values()) == {1} and "none" not in {kept.operation for kept in counts}
            if kind.keep is None:
                assert len(counts) == len(kind.edges) * len(group)
    assert draw_fair_group(space, (0, 1)) == draw_fair_group(space, (0, 1)) != draw_fair_group(space, (0, 2))


def network(operations: tuple[str, ...]) -> Genotype:
    on_edge = dict(zip(KIND.edges, operations, strict=True))
    nodes = tuple(tuple(Gene(on_edge[e], e.source) for e in KIND.edges if e.node == node) for node in range(KIND.nodes))
    return Genotype("nasbench201", {"cell": nodes})


def problem() -> tuple[Tensor, Tensor]:
    """α and prices in float64."""
    generator = torch.Generator().manual_seed(0)
    alpha = torch.randn(6, 5, generator=generator, dtype=torch.float64).requires_grad_()
    return alpha, 0.8 + 0.45 * torch.rand(6, 5, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("scale", ["shifted", "literal", "off"])
def test_chances_are_products_of_softmaxes_and_add_up_to_one(scale: str) -> None:
    alpha, price = problem()
    picked = [(*ops, *["nor_conv_3x3"] * 4) for ops in product(OPERATIONS, repeat=2)]
    chances = log_chances(NB201, [alpha], [price], scale, [network(ops) for ops in picked]).exp()  # type: ignore[arg-type]
    (weights,) = edge_weights([alpha], [price], scale)  # type: ignore[arg-type]
    among_passing = weights[:, 1:] / weights[:, 1:].sum(-1, keepdim=True)
    rest = among_passing[2:, OPERATIONS.index("nor_conv_3x3")].prod()
    torch.testing.assert_close(chances.sum(), rest, rtol=1e-12, atol=0)
    first = among_passing[0, 2] * among_passing[1, 0] * rest
    torch.testing.assert_close(chances[picked.index(("nor_conv_3x3", "skip_connect", *["nor_conv_3x3"] * 4))], first)


def test_fair_groups_have_the_gradient_of_the_expectation() -> None:
    """At even chances the mean over the latin groups of two edges is ∂/∂α Σ_z p_α(z) ℓ(z), by the sum and by hand."""
    alpha = torch.zeros(6, 5, dtype=torch.float64, requires_grad=True)
    table = torch.randn(4, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def chances_of(pairs: list[tuple[int, ...]]) -> Tensor:
        members = [network((OPERATIONS[i], OPERATIONS[j], *["nor_conv_3x3"] * 4)) for i, j in pairs]
        return log_chances(NB201, [alpha], [torch.ones_like(alpha)], "off", members)

    every = list(product(range(4), repeat=2))
    by_sum = torch.autograd.grad((chances_of(every).softmax(0) * table.flatten()).sum(), alpha)[0][:2]
    by_groups = torch.zeros_like(by_sum)
    for shift in range(4):  # each pair of operations is in one group
        group: list[tuple[int, ...]] = [(i, (i + shift) % 4) for i in range(4)]
        losses = torch.stack([table[pair] for pair in group])
        value = expected_loss(losses, chances_of(group))
        torch.testing.assert_close(value, losses.mean())
        by_groups += torch.autograd.grad(value, alpha)[0][:2] / 4
    centred, by_hand = table - table.mean(), torch.zeros_like(by_sum)
    by_hand[0, 1:], by_hand[1, 1:] = centred.mean(1) / 4, centred.mean(0) / 4
    torch.testing.assert_close(by_groups, by_hand, rtol=0, atol=1e-12)
    torch.testing.assert_close(by_sum, by_hand, rtol=0, atol=1e-12)


def test_the_weights_see_the_mean_and_the_mixed_derivative_is_that_of_the_score_function() -> None:
    alpha, price = problem()
    weight = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    members = draw_fair_group(NB201, (3,))
    slopes = torch.tensor([0.5, -1.0, 2.0, 0.25], dtype=torch.float64)
    logs = log_chances(NB201, [alpha], [price], "shifted", members)
    value = expected_loss(slopes * weight**2, logs)
    (inner,) = torch.autograd.grad(value, weight, create_graph=True)
    torch.testing.assert_close(inner, 2 * weight * slopes.mean())
    (mixed,) = torch.autograd.grad(inner, alpha, retain_graph=True)
    centred = 2 * weight.detach() * (slopes - slopes.mean()) / 4
    expected = torch.autograd.grad(logs, alpha, centred)[0]
    torch.testing.assert_close(mixed, expected, rtol=0, atol=1e-12)
