"""The penalized objective against its formula and finite differences."""

import math
from collections.abc import Sequence

import pytest
import torch

from pipeline.budget.expected_cost import expected_cost
from pipeline.budget.limits import Limit
from pipeline.search.objective import Constraint, adapt_penalty
from pipeline.space.costs import mac_costs, param_costs
from pipeline.space.extremes import cheapest_genotype
from pipeline.space.score import relative_prices
from pipeline.space.skeleton import Skeleton
from pipeline.space.spaces import space_named

SKELETON = Skeleton("darts", cells=3, channels=8, resolution=16, classes=10)
SPACE = space_named("darts")
MACS, PARAMS = mac_costs(SKELETON), param_costs(SKELETON)


def constraint(*limits: Limit) -> Constraint:
    return Constraint(SPACE, limits, tuple(relative_prices(SPACE, MACS)), "shifted")


def random_alphas(seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(14, 8, generator=generator, dtype=torch.float64) for _ in range(2)]


def macs_limit(share: float) -> Limit:
    """A limit that lies a share of the way from the cheapest network to what the random architecture expects."""
    least = MACS.of(cheapest_genotype(SPACE, MACS))
    now = float(constraint(Limit("max_macs", MACS, 1.0, "MACs")).expected(random_alphas(0))[0])
    return Limit("max_macs", MACS, least + share * (now - least), "MACs")


def eq_11(limits: Constraint, loss: torch.Tensor, alphas: Sequence[torch.Tensor], penalty: float) -> torch.Tensor:
    """The objective as the paper writes it, λ and the division by T added."""
    over = [torch.relu(expected_cost(SPACE, limit.costs, alphas) / limit.at_most - 1) for limit in limits.limits]
    return loss * torch.exp(penalty * torch.stack(over).sum())


def test_logarithm_of_the_objective_with_two_limits() -> None:
    both = constraint(macs_limit(0.5), Limit("max_params", PARAMS, 1000.0, "parameters"))
    expected = eq_11(both, torch.tensor(1.7, dtype=torch.float64), random_alphas(0), 0.3).log()
    assert both.log_objective(1.7, random_alphas(0), 0.3) == pytest.approx(float(expected), rel=1e-12)


def test_direction_is_that_of_equation_11_by_finite_differences() -> None:
    """The gradient of eq. 11 through both factors, up to the positive factor that is divided out."""
    limits = constraint(macs_limit(0.8))
    alphas = [alpha.requires_grad_() for alpha in random_alphas(0)]

    def loss(a: Sequence[torch.Tensor]) -> torch.Tensor:
        return 1 + torch.stack([(x**2).mean() for x in a]).sum()

    gradient = torch.autograd.grad(limits.penalize(loss(alphas), alphas, 2.0), alphas)
    factor = float(eq_11(limits, torch.tensor(1.0), [a.detach() for a in alphas], 2.0))
    for place in ((0, 0, 0), (0, 5, 4), (1, 3, 7), (1, 13, 2)):
        kind, *index = place
        values = []
        for sign in (1, -1):
            moved = [a.detach().clone() for a in alphas]
            moved[kind][tuple(index)] += sign * 1e-6
            values.append(float(eq_11(limits, loss(moved), moved, 2.0)))
        difference = (values[0] - values[1]) / 2e-6
        assert factor * float(gradient[kind][tuple(index)]) == pytest.approx(difference, rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("at_most", [math.inf, 1e18])
def test_a_budget_that_does_not_bind_is_exactly_absent(at_most: float) -> None:
    alphas = [alpha.requires_grad_() for alpha in random_alphas(0)]
    loss = sum((alpha.sin()).sum() for alpha in alphas)
    assert isinstance(loss, torch.Tensor)
    penalized = constraint(Limit("max_macs", MACS, at_most, "MACs")).penalize(loss, alphas, 5.0)
    assert torch.equal(penalized, loss)
    for with_penalty, without in zip(
        torch.autograd.grad(penalized, alphas, retain_graph=True), torch.autograd.grad(loss, alphas), strict=True
    ):
        assert torch.equal(with_penalty, without)


def test_penalty_rises_while_a_limit_is_missed_and_falls_below() -> None:
    assert adapt_penalty(1.0, missed=True, rate=0.1, start=1.0) == pytest.approx(1.1)
    assert adapt_penalty(1.0, missed=False, rate=0.1, start=1.0) == pytest.approx(1 / 1.1)
    low, high = 1.0, 1.0
    for _ in range(1000):
        low, high = (adapt_penalty(p, over, 0.1, 1.0) for p, over in ((low, False), (high, True)))
    assert low == 0.01 and high == 10_000.0


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_descent_on_the_penalty_alone_reaches_the_budget(share: float) -> None:
    """The loss wants to stay where it is; the penalty brings the expected cost to the limit and leaves it there."""
    limits = constraint(macs_limit(share))
    alphas = [alpha.float().requires_grad_() for alpha in random_alphas(0)]
    optimizer, penalty = torch.optim.Adam(alphas, lr=0.02), 1.0
    wish = [alpha.detach().clone() for alpha in alphas]
    for _ in range(400):
        loss = 1 + torch.stack([(a - w).square().mean() for a, w in zip(alphas, wish, strict=True)]).sum()
        optimizer.zero_grad()
        limits.penalize(loss, alphas, penalty).backward()
        optimizer.step()
        penalty = adapt_penalty(penalty, float(limits.overshoot([a.detach() for a in alphas])) > 0, 0.05, 1.0)
    expected = float(limits.expected([a.detach() for a in alphas])[0])
    assert expected == pytest.approx(limits.limits[0].at_most, rel=0.02)
