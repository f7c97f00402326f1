"""Gradients of the guide loss in λ against closed forms written out here, and against the solution moved by λ."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from pipeline.autodo.last_layer import Encoded, LastLayer
from pipeline.autodo.parameters import labels_of, start_labels, weights_of
from pipeline.bilevel import ExactInverse, Neumann, hypergradient
from tests.autodo.problem import CLASSES, FEATURES, IMAGES, make_augmented_problem, make_problem, randn

GAMMA, TERMS = 0.3, 5


def slope(raw: Tensor) -> Tensor:
    """s′ = sigmoid / ln 2"""
    return 1 / (1 + torch.exp(-raw)) / math.log(2)


def test_weighted_ridge_has_the_gradient_of_its_closed_form() -> None:
    """H = XᵀSX/N + ρI, dL_v/dλ_i = −s′_i/N · (x_iᵀθ* − y_i) · x_iᵀ H⁻¹ ∇L_v"""
    x, y, raw, rho, count = randn(9, 4, seed=0), randn(9, seed=1), randn(9, seed=2), 0.2, 9
    guide_x, guide_y = randn(6, 4, seed=3), randn(6, seed=4)
    s = torch.log(1 + torch.exp(raw)) / math.log(2)
    h = x.T @ (s[:, None] * x) / count + rho * torch.eye(4, dtype=torch.float64)
    theta = torch.linalg.solve(h, x.T @ (s * y) / count)
    outward = guide_x.T @ (guide_x @ theta - guide_y) / len(guide_y)
    wanted = -slope(raw) / count * (x @ theta - y) * (x @ torch.linalg.solve(h, outward))
    found = hypergradient(
        lambda w, a: (weights_of(a[0]) * (x @ w[0] - y).square() / 2).mean() + rho / 2 * w[0].square().sum(),
        lambda w, a: (guide_x @ w[0] - guide_y).square().mean() / 2,
        [theta.requires_grad_()],
        [raw.requires_grad_()],
        ExactInverse(),
    )
    assert torch.allclose(found[0], wanted, rtol=0, atol=1e-12)


def softmax(problem: LastLayer, part: Encoded) -> Tensor:
    logits = part.features @ problem.weight.T + (0 if problem.bias is None else problem.bias)
    return torch.exp(logits) / torch.exp(logits).sum(1, keepdim=True)


def neumann_sum(hessian: Tensor, outward: Tensor) -> Tensor:
    """V = γ Σ_{k=0..T} (I − γH)^k ∇L_v, as a matrix of the shape of θ."""
    step = torch.eye(len(hessian), dtype=torch.float64) - GAMMA * hessian
    powers = [torch.linalg.matrix_power(step, k) @ outward.flatten() for k in range(TERMS + 1)]
    return GAMMA * torch.stack(powers).sum(0).view_as(outward)


def guide_gradient(problem: LastLayer) -> Tensor:
    wrong = softmax(problem, problem.guide) - nn.functional.one_hot(problem.guide.labels, CLASSES)
    return wrong.T @ problem.guide.features / len(wrong)


@pytest.mark.parametrize("bias", [True, False])
def test_weights_of_a_softmax_layer_have_the_gradient_of_its_closed_form(bias: bool) -> None:
    """−s′_i/B · (p_i − y_i)ᵀ V h_i, with H = Σ_i s_i/B · (diag p_i − p_i p_iᵀ) ⊗ h_i h_iᵀ + decay · I"""
    problem = make_problem(bias=bias)
    raw, h, p = problem.rows["weights"], problem.train.features, softmax(problem, problem.train)
    s = torch.log(1 + torch.exp(raw)) / math.log(2)
    hessian = problem.decay * torch.eye(CLASSES * FEATURES, dtype=torch.float64)
    for i in range(IMAGES):
        curvature = torch.diag(p[i]) - torch.outer(p[i], p[i])
        hessian += s[i] / IMAGES * torch.kron(curvature, torch.outer(h[i], h[i]))
    v = neumann_sum(hessian, guide_gradient(problem))
    wrong = p - nn.functional.one_hot(problem.train.labels, CLASSES)
    wanted = -slope(raw) / IMAGES * ((wrong @ v) * h).sum(1)
    found = problem.gradients(Neumann(GAMMA, TERMS))["weights"]
    assert torch.allclose(found, wanted, rtol=0, atol=1e-12)
    assert float(wanted.abs().min()) > 1e-5


def symmetric_loss(problem: LastLayer, theta: Tensor) -> Tensor:
    """½ [KL(S‖p) + KL(p‖S)] as the two sums of its definition."""
    s, log_p = problem.rows["labels"].softmax(1), (problem.train.features @ theta.T).log_softmax(1)
    forward = (s * (s.log() - log_p)).sum(1)
    backward = (log_p.exp() * (log_p - s.log())).sum(1)
    weight = torch.log(1 + torch.exp(problem.rows["weights"])) / math.log(2)
    return (weight * (forward + backward) / 2).mean() + problem.decay / 2 * theta.square().sum()


def test_soft_labels_have_the_gradient_of_their_closed_form() -> None:
    """s_i/2B · [S_c (u_c − S·u) + p_c (u_c − p·u)] with u = V h_i; H written out by torch from the definition."""
    problem = make_problem(with_labels=True, bias=False)
    size = CLASSES * FEATURES
    hessian = torch.autograd.functional.hessian(lambda theta: symmetric_loss(problem, theta), problem.weight).reshape(
        size, size
    )
    u = problem.train.features @ neumann_sum(hessian, guide_gradient(problem)).T
    soft, p = problem.rows["labels"].softmax(1), softmax(problem, problem.train)
    pulls = [q * (u - (q * u).sum(1, keepdim=True)) for q in (soft, p)]
    weight = torch.log(1 + torch.exp(problem.rows["weights"])) / math.log(2)
    wanted = weight[:, None] / (2 * IMAGES) * (pulls[0] + pulls[1])
    assert torch.allclose(problem.gradients(Neumann(GAMMA, TERMS))["labels"], wanted, rtol=0, atol=1e-12)


def test_augmentation_has_the_gradient_of_its_closed_form() -> None:
    """−d/dλA of Σ_i s_i/B · q_iᵀ V h_i(λA), by differences; q_i = dℓ_i/dz_i = ½ [p − S + p (r − p·r)], r = ln p − ln S.

    V stands still, being the Neumann sum at the present λA, and only magnitudes are compared: a hard choice has no
    differences, and its gradient has the same path below (tests of augmentation.py).
    """
    problem = make_augmented_problem()
    assert problem.encode is not None
    size, bias, theta = CLASSES * FEATURES, problem.bias, problem.weight
    assert bias is not None
    soft = problem.rows["labels"].softmax(1)
    weight = torch.log(1 + torch.exp(problem.rows["weights"])) / math.log(2)

    def pulls(theta: Tensor, h: Tensor) -> Tensor:
        """dL/dθ without decay, from the closed form of q."""
        p = torch.exp(h @ theta.T + bias)
        p = p / p.sum(1, keepdim=True)
        r = (p / soft).log()
        q = (p - soft + p * (r - (p * r).sum(1, keepdim=True))) / 2
        return (weight[:, None] * q).T @ h / IMAGES

    h = problem.train.features
    hessian = torch.autograd.functional.jacobian(lambda t: pulls(t, h) + problem.decay * t, theta).reshape(size, size)
    v = neumann_sum(hessian, guide_gradient(problem))
    found = problem.gradients(Neumann(GAMMA, TERMS))["augmentation"]
    for place in [(i, k) for i in range(IMAGES) for k in (7, 8, 9, 10, 13)]:
        sums = []
        for sign in (1, -1):
            moved = problem.rows["augmentation"].clone()
            moved[place] += sign * 1e-6
            sums.append(float((v * pulls(theta, problem.encode(moved))).sum()))
        assert float(found[place]) == pytest.approx(-(sums[0] - sums[1]) / 2e-6, rel=1e-6, abs=1e-9)
    assert float(found[:, 7:10].abs().min()) > 1e-7 and float(found[:, :3].abs().max()) > 0


@pytest.mark.parametrize("name", ["weights", "labels", "augmentation"])
def test_the_gradient_is_how_the_guide_loss_of_the_solution_moves(name: str) -> None:
    """Solve the inner problem anew for λ ± ε, by Newton steps; nothing of ours differentiates here."""
    with_augmentation = name == "augmentation"
    problem = make_augmented_problem(0.3) if with_augmentation else make_problem(0.3, with_labels=name == "labels")
    found = solve(problem).gradients(ExactInverse())[name]
    epsilon = 1e-5
    places: dict[str, list[tuple[int, ...]]]
    places = {"weights": [(0,), (3,)], "labels": [(0, 1), (4, 2)], "augmentation": [(0, 7), (4, 9)]}
    for place in places[name]:
        losses = []
        for sign in (1, -1):
            moved = problem.rows[name].clone()
            moved[place] += sign * epsilon
            solved = solve(replace(problem, rows={**problem.rows, name: moved}))
            losses.append(float(solved.outer([solved.weight], [])))
        assert float(found[place]) == pytest.approx((losses[0] - losses[1]) / (2 * epsilon), rel=1e-6, abs=1e-10)


def solve(problem: LastLayer) -> LastLayer:
    theta, alpha = problem.weight, list(problem.rows.values())
    for _ in range(40):
        gradient = torch.autograd.functional.jacobian(lambda t: problem.inner([t], alpha), theta)
        hessian = torch.autograd.functional.hessian(lambda t: problem.inner([t], alpha), theta)
        step = torch.linalg.solve(hessian.reshape(theta.numel(), -1), gradient.flatten())
        theta = theta - step.view_as(theta)
    assert float(gradient.norm()) < 1e-12
    return replace(problem, weight=theta)


def test_a_wrong_label_among_separable_points_is_to_weigh_less() -> None:
    """Descent lowers a weight with a positive gradient."""
    centres = 3.0 * torch.eye(2, dtype=torch.float64)
    labels = torch.arange(20) % 2
    given = labels.clone()
    given[4] = 1 - given[4]
    train = Encoded(centres[labels] + 0.1 * randn(20, 2, seed=0), given)
    guide = Encoded(centres[labels] + 0.1 * randn(20, 2, seed=1), labels)
    rows = {"weights": torch.zeros(20, dtype=torch.float64)}
    problem = solve(LastLayer(torch.zeros(2, 2, dtype=torch.float64), None, 0.05, train, guide, rows, slice(None)))
    found = problem.gradients(Neumann(0.01, 5))["weights"]
    assert found[4] > 0 and int(found.argmax()) == 4
    assert bool((found[torch.arange(20) != 4] < 0).all())


def test_start_values() -> None:
    raw = start_labels(torch.tensor([3, 0]), 10, 0.1)
    assert labels_of(raw)[0].tolist() == pytest.approx([0.01] * 3 + [0.91] + [0.01] * 6, abs=1e-6)
    assert float(weights_of(torch.zeros(1, dtype=torch.float64))) == pytest.approx(1.0, abs=1e-15)
    assert labels_of(start_labels(torch.tensor([1]), 2, 0.5))[0].tolist() == pytest.approx([0.25, 0.75], abs=1e-6)


def test_the_gap_is_the_distance_of_the_two_gradients() -> None:
    problem = make_problem()
    inner = torch.autograd.functional.jacobian(
        lambda theta: problem.inner([theta], list(problem.rows.values())), problem.weight
    )
    assert problem.gap() == pytest.approx(float((inner - guide_gradient(problem)).square().sum()), rel=1e-12)


def test_a_rank_reads_its_own_rows() -> None:
    """The mean over two halves, each with the rows of the whole batch, is the gradient of the whole batch."""
    problem = replace(make_problem(with_labels=True), guide=make_problem().guide)
    whole = {name: value[:6] for name, value in problem.rows.items()}
    cut = Encoded(problem.train.features[:6], problem.train.labels[:6])
    together = replace(problem, rows=whole, train=cut)
    w, alpha = [problem.weight], list(whole.values())
    halves = [
        replace(together, own=own, train=Encoded(*(part[own] for part in cut))) for own in (slice(0, 3), slice(3, 6))
    ]
    assert torch.stack([half.inner(w, alpha) for half in halves]).mean() == pytest.approx(
        float(together.inner(w, alpha)), abs=1e-14
    )
