"""The latency-scaled softmax and the scores, against their definitions."""

import itertools

import numpy as np
import pytest
import torch

from pipeline.budget.expected_cost import expected_cost
from pipeline.space.cells import Space
from pipeline.space.costs import Costs, mac_costs
from pipeline.space.score import (
    PRICE_RANGE,
    argmax_genotype,
    edge_logits,
    edge_weights,
    genotype_score,
    log_odds,
    operation_scores,
    relative_prices,
)
from pipeline.space.skeleton import Skeleton
from pipeline.space.spaces import space_named

SPACES = ["darts", "nasbench201"]


def space_and_costs(name: str) -> tuple[Space, Costs]:
    return space_named(name), mac_costs(Skeleton(name, cells=6, channels=16, resolution=32, classes=10))


def random_alphas(space: Space, seed: int, spread: float = 1.0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [
        spread * torch.randn(len(k.edges), len(k.operations), generator=generator, dtype=torch.float64)
        for k in space.kinds
    ]


@pytest.mark.parametrize("value", [-2.0, -0.1, 0.0, 0.1, 3.0])
def test_at_equal_alpha_the_cheaper_operation_weighs_more(value: float) -> None:
    price = torch.tensor([[0.5, 0.8, 1.0, 1.7, 3.0]], dtype=torch.float64)
    weights = edge_logits(torch.full_like(price, value), price, "shifted").softmax(-1)
    assert (weights.diff() < 0).all()


def test_as_printed_negative_alpha_favours_the_costliest() -> None:
    price = torch.tensor([[0.5, 3.0]])
    assert edge_logits(torch.full_like(price, -1.0), price, "literal").argmax() == 1
    assert edge_logits(torch.zeros_like(price), price, "literal").tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("name", SPACES)
def test_every_operation_starts_above_two_percent(name: str) -> None:
    space, costs = space_and_costs(name)
    zeros = [torch.zeros(len(k.edges), len(k.operations)) for k in space.kinds]
    for weights in edge_weights(zeros, relative_prices(space, costs), "shifted"):
        assert float(weights.min()) > 0.02
    # the worst case that the clipping admits
    worst = torch.tensor([[PRICE_RANGE[1]] + [PRICE_RANGE[0]] * 7])
    assert float(edge_logits(torch.zeros_like(worst), worst, "shifted").softmax(-1).min()) > 0.02


def test_prices_are_relative_to_the_mean_without_none() -> None:
    space, costs = space_and_costs("nasbench201")
    price = relative_prices(space, costs)[0][0].numpy()
    row = costs.choices["cell"][0]
    np.testing.assert_allclose(price, (row / row[1:].mean()).clip(0.8, 1.25), rtol=1e-6)


def test_log_odds_against_probabilities() -> None:
    logits = torch.tensor([[0.3, -1.0, 2.0, -torch.inf]], dtype=torch.float64)
    p = logits.softmax(-1)
    odds = log_odds(logits)
    torch.testing.assert_close(odds[:, :3], (p / (1 - p)).log()[:, :3], rtol=1e-12, atol=1e-12)
    assert odds[0, 3] == -torch.inf


def test_scores_do_not_saturate() -> None:
    logits = torch.tensor([[1000.0, 0.0], [500.0, 0.0]])
    assert log_odds(logits)[:, 0].tolist() == [1000.0, 500.0]


@pytest.mark.parametrize("name", SPACES)
def test_expected_cost_tends_to_the_selected_network(name: str) -> None:
    space, costs = space_and_costs(name)
    for seed in range(5):
        alphas = [1e5 * alpha for alpha in random_alphas(space, seed)]
        genotype = argmax_genotype(space, operation_scores(space, alphas))
        expected = expected_cost(space, costs, alphas)
        assert float(expected) == pytest.approx(costs.of(genotype), rel=1e-9)


def test_the_alpha_of_none_says_nothing() -> None:
    """It scores what the weakest operation does, whatever its own α, and changes no other score."""
    space, _ = space_and_costs("nasbench201")
    (alpha,) = random_alphas(space, 0)
    none = space.kinds[0].operations.index("none")
    (score,) = operation_scores(space, [alpha])
    raised = alpha.clone()
    raised[:, none] += 7.0
    torch.testing.assert_close(operation_scores(space, [raised])[0], score)
    others = [i for i in range(score.shape[1]) if i != none]
    torch.testing.assert_close(score[:, none], score[:, others].amin(-1))
    torch.testing.assert_close(score[:, others], log_odds(alpha[:, others]))


def enumerate_expectation(space: Space, costs: Costs, alphas: list[torch.Tensor]) -> float:
    """E[cost] by its definition in plain numpy: every operation, every set of inputs."""
    total = costs.fixed
    for kind, alpha in zip(space.kinds, alphas, strict=True):
        a, c = alpha.numpy(), costs.choices[kind.name]
        mean, best = np.zeros(len(kind.edges)), np.zeros(len(kind.edges))
        allowed = [i for i, o in enumerate(kind.operations) if o != "none"]
        for e in range(len(kind.edges)):
            logits = a[e][allowed]
            chance = np.exp(logits) / np.exp(logits).sum()
            mean[e] = (chance * c[e][allowed]).sum()
            best[e] = np.log(chance.max() / (1 - chance.max()))
        for node in range(kind.nodes):
            sets = list(itertools.combinations(kind.edges_into(node), kind.keep or len(kind.edges_into(node))))
            weight = np.exp([best[list(s)].sum() for s in sets])
            total += sum(w * mean[list(s)].sum() for w, s in zip(weight / weight.sum(), sets, strict=True))
    return total


@pytest.mark.parametrize("name", SPACES)
def test_expected_cost_against_its_definition(name: str) -> None:
    space, costs = space_and_costs(name)
    for seed in range(5):
        alphas = random_alphas(space, seed)
        expected = float(expected_cost(space, costs, alphas))
        assert expected == pytest.approx(enumerate_expectation(space, costs, alphas), rel=1e-10)


@pytest.mark.parametrize("name", SPACES)
def test_gradient_of_the_expected_cost(name: str) -> None:
    space, costs = space_and_costs(name)
    alphas = tuple(alpha.requires_grad_() for alpha in random_alphas(space, 3))
    assert torch.autograd.gradcheck(lambda *a: expected_cost(space, costs, a) / 1e7, alphas)


def test_argmax_keeps_the_best_pair_by_brute_force() -> None:
    space, _ = space_and_costs("darts")
    scores = operation_scores(space, random_alphas(space, 11))
    genotype, total = argmax_genotype(space, scores), 0.0
    for kind, score in zip(space.kinds, scores, strict=True):
        best = score.max(-1).values
        for node in range(kind.nodes):
            sums = {s: float(best[list(s)].sum()) for s in itertools.combinations(kind.edges_into(node), 2)}
            kept = tuple(k.edge for k in genotype.kept(kind) if k.edge in kind.edges_into(node))
            assert kept == max(sums, key=sums.__getitem__)
            total += max(sums.values())
    assert genotype_score(space, scores, genotype) == pytest.approx(total, rel=1e-12)


def test_a_costly_operation_can_win_by_the_least_lead() -> None:
    """What the data prefer is selected, whatever it costs: the price acts in the mixture, the budget in selection."""
    space, _ = space_and_costs("darts")
    alphas = [torch.zeros(len(k.edges), len(k.operations)) for k in space.kinds]
    for kind, alpha in zip(space.kinds, alphas, strict=True):
        alpha[:, kind.operations.index("sep_conv_5x5")] = 1e-3
    genotype = argmax_genotype(space, operation_scores(space, alphas))
    assert {kept.operation for kind in space.kinds for kept in genotype.kept(kind)} == {"sep_conv_5x5"}
