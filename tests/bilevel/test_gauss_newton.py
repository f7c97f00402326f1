"""Gauss-Newton products against the explicit matrix, against curvlinops, and against H where both are one."""

from collections.abc import Sequence

import pytest
import torch
from curvlinops import GGNLinearOperator
from torch import Tensor, nn

from pipeline.bilevel import (
    Composition,
    ConjugateGradient,
    NegativeCurvatureError,
    Neumann,
    hypergradient,
    hypergradient_with_diagnostics,
)
from pipeline.bilevel.problem import Problem
from pipeline.bilevel.products import ExactProducts, GaussNewtonProducts
from tests.bilevel.mixture import (
    ALPHA,
    DECAY,
    NET,
    TRAIN,
    W,
    decay,
    dense,
    like_w,
    outer_gradient,
    train_logits,
    train_loss,
    valid_loss,
)
from tests.bilevel.problems import DOUBLE, flat, random

GAMMA = 0.1
INNER = Composition(
    lambda w, alpha: [NET(TRAIN[0]), *W],
    lambda z, alpha: nn.functional.cross_entropy(z[0], TRAIN[1]) + decay(z[1:]),
)


def explicit() -> Tensor:
    """Sum over images of J^T (diag p - p p^T) J / images, plus the decay."""
    both = flat([*W, *ALPHA]).detach()
    jacobian = torch.func.jacrev(train_logits)(both)[:, :, :-2]
    p = train_logits(both).softmax(1)
    middle = torch.diag_embed(p) - p.unsqueeze(2) * p.unsqueeze(1)
    blocks = jacobian.transpose(1, 2) @ middle @ jacobian
    return blocks.mean(0) + DECAY * torch.eye(blocks.shape[1], dtype=DOUBLE)


def problem(inner: Composition = INNER) -> Problem:
    return Problem(inner, valid_loss, W, ALPHA, list, ())


def test_a_composition_is_its_loss() -> None:
    torch.testing.assert_close(INNER(W, ALPHA), train_loss(W, ALPHA), rtol=0, atol=1e-14)


def test_products_are_columns_of_the_explicit_matrix_and_the_mixed_part_is_exact() -> None:
    matrix, (hessian, mixed) = explicit(), dense()
    products = GaussNewtonProducts(problem())
    for unit in torch.eye(len(matrix), dtype=DOUBLE)[::5]:
        pair = products.both(like_w(unit))
        torch.testing.assert_close(flat(pair.w), matrix @ unit, rtol=0, atol=1e-12)
        torch.testing.assert_close(flat(pair.alpha), mixed @ unit, rtol=0, atol=1e-12)
        torch.testing.assert_close(flat(products.hessian(like_w(unit))), matrix @ unit, rtol=0, atol=1e-12)
        torch.testing.assert_close(flat(products.mixed(like_w(unit))), mixed @ unit, rtol=0, atol=1e-12)
    torch.testing.assert_close(flat(products.inner_gradient()), flat(ExactProducts(problem()).inner_gradient()))
    assert (matrix - hessian).norm() > 0.01 * hessian.norm()


def test_products_agree_with_curvlinops() -> None:
    witness = GGNLinearOperator(NET, nn.CrossEntropyLoss(), W, [TRAIN], check_deterministic=False)
    v = random(len(flat(W)), seed=11)
    found = flat(GaussNewtonProducts(problem()).hessian(like_w(v)))
    torch.testing.assert_close(found, witness @ v + DECAY * v, rtol=0, atol=1e-12)


def test_no_curvature_is_below_the_decay() -> None:
    """Where the Hessian has negative ones, and conjugate gradient refuses it."""
    products, size = GaussNewtonProducts(problem()), len(flat(W))
    columns = [flat(products.hessian(like_w(unit))) for unit in torch.eye(size, dtype=DOUBLE)]
    assert torch.linalg.eigvalsh(torch.stack(columns))[0] > DECAY - 1e-12
    assert torch.linalg.eigvalsh(dense()[0])[0] < 0
    with pytest.raises(NegativeCurvatureError):
        hypergradient(INNER, valid_loss, W, ALPHA, ConjugateGradient(200, rtol=1e-13))
    method = ConjugateGradient(200, rtol=1e-13, products="gauss_newton")
    found = hypergradient_with_diagnostics(INNER, valid_loss, W, ALPHA, method).indirect
    expected = -dense()[1] @ torch.linalg.solve(explicit(), outer_gradient())
    torch.testing.assert_close(flat(found), expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("terms", [0, 2, 7])
def test_neumann_is_the_series_of_the_explicit_matrix(terms: int) -> None:
    matrix, mixed, v = explicit(), dense()[1], outer_gradient()
    step = torch.eye(len(matrix), dtype=DOUBLE) - GAMMA * matrix
    powers = [torch.linalg.matrix_power(step, k) @ v for k in range(terms + 2)]
    found = hypergradient_with_diagnostics(INNER, valid_loss, W, ALPHA, Neumann(GAMMA, terms, "gauss_newton"))
    expected = -GAMMA * mixed @ torch.stack(powers[:-1]).sum(0)
    torch.testing.assert_close(flat(found.indirect), expected, rtol=0, atol=1e-12)
    assert found.diagnostics.residual == pytest.approx(float(powers[-1].norm() / v.norm()), rel=1e-10)
    plain = hypergradient(INNER, valid_loss, W, ALPHA, Neumann(GAMMA, terms, "gauss_newton"))
    torch.testing.assert_close(flat(plain), flat(found.gradient), rtol=0, atol=1e-14)


def test_it_is_the_hessian_of_a_linear_model_whose_examples_alpha_weighs() -> None:
    """alpha is in the convex function alone here: J^T g depends on it through g only."""
    x, labels = random(9, 4, seed=1), torch.arange(9) % 3
    w, alpha = [random(4, 3, seed=2).requires_grad_()], [random(9, seed=3).requires_grad_()]

    def convex(z: Sequence[Tensor], alpha: Sequence[Tensor]) -> Tensor:
        return (alpha[0].sigmoid() * nn.functional.cross_entropy(z[0], labels, reduction="none")).mean()

    linear = Problem(Composition(lambda w, alpha: [x @ w[0]], convex), convex, w, alpha, list, ())
    v = [random(4, 3, seed=4)]
    ours, theirs = GaussNewtonProducts(linear).both(v), ExactProducts(linear).both(v)
    torch.testing.assert_close(ours.w[0], theirs.w[0], rtol=0, atol=1e-14)
    torch.testing.assert_close(ours.alpha[0], theirs.alpha[0], rtol=0, atol=1e-14)
    assert theirs.w[0].norm() > 0.01 and theirs.alpha[0].norm() > 0.01


def test_statistics_keep_their_bits() -> None:
    norm = nn.BatchNorm1d(3).double()
    w, alpha = list(norm.parameters()), [random(3, seed=5).requires_grad_()]
    norm(random(6, 3, seed=6))
    before = [buffer.clone() for buffer in norm.buffers()]
    inner = Composition(
        lambda w, alpha: [norm(random(6, 3, seed=7) * alpha[0])], lambda z, alpha: z[0].logsumexp(1).mean()
    )
    hypergradient(inner, inner, w, alpha, Neumann(GAMMA, 1, "gauss_newton"), buffers=list(norm.buffers()))
    assert all(torch.equal(a, b) for a, b in zip(before, norm.buffers(), strict=True))


def test_a_plain_loss_is_refused() -> None:
    with pytest.raises(ValueError, match="Composition"):
        hypergradient(train_loss, valid_loss, W, ALPHA, Neumann(GAMMA, 1, "gauss_newton"))


def test_unknown_kinds_are_refused() -> None:
    with pytest.raises(ValueError, match="products must be one of 'exact', 'finite_difference', 'gauss_newton'"):
        Neumann(GAMMA, 1, "fisher")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'gauss_newton', not 'finite_difference'"):
        ConjugateGradient(3, products="finite_difference")  # type: ignore[arg-type]
