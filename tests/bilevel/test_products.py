"""Products on a small convolutional network against dense torch.func matrices and against curvlinops."""

import pytest
import torch
from curvlinops import CGInverseLinearOperator, HessianLinearOperator, NeumannInverseLinearOperator
from curvlinops._torch_base import PyTorchLinearOperator
from curvlinops.examples import IdentityLinearOperator
from torch import Tensor, nn

from pipeline.bilevel import ConjugateGradient, ExactInverse, Method, Neumann, hypergradient_with_diagnostics
from pipeline.bilevel.problem import Problem
from pipeline.bilevel.products import ExactProducts, FiniteDifferenceProducts, Products
from tests.bilevel.mixture import ALPHA, DECAY, NET, TRAIN, W, dense, like_w, outer_gradient, train_loss, valid_loss
from tests.bilevel.problems import DOUBLE, flat, random

GAMMA = 0.1


def problem() -> Problem:
    return Problem(train_loss, valid_loss, W, ALPHA, list, ())


def test_exact_products_are_columns_of_the_dense_matrices() -> None:
    hessian, mixed = dense()
    products = ExactProducts(problem())
    for unit in torch.eye(len(hessian), dtype=DOUBLE)[::5]:
        torch.testing.assert_close(flat(products.hessian(like_w(unit))), hessian @ unit, rtol=0, atol=1e-12)
        torch.testing.assert_close(flat(products.mixed(like_w(unit))), mixed @ unit, rtol=0, atol=1e-12)


def test_the_inner_graph_holds_our_convolutions() -> None:
    """The ones whose second derivative does not loop over groups."""
    waiting = [g.grad_fn for g in ExactProducts(problem()).gradient if g.grad_fn is not None]
    names: set[str] = set()
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        names.add(type(node).__name__)
        following = {parent for parent, _ in node.next_functions if parent is not None} - seen
        seen |= following
        waiting += following
    assert "ConvolutionGradientBackward" in names
    assert "ConvolutionBackwardBackward0" not in names


@pytest.mark.parametrize(("difference", "tolerance"), [("one_sided", 1e-5), ("central", 1e-8)])
def test_finite_differences_approach_the_dense_matrices(difference: str, tolerance: float) -> None:
    hessian, mixed = dense()
    products = FiniteDifferenceProducts(problem(), 1e-5, difference)  # type: ignore[arg-type]
    v = random(len(hessian), seed=9)
    assert (flat(products.hessian(like_w(v))) - hessian @ v).norm() < tolerance * (hessian @ v).norm()
    assert (flat(products.mixed(like_w(v))) - mixed @ v).norm() < tolerance * (mixed @ v).norm()


@pytest.mark.parametrize("kind", ["exact", "one_sided", "central"])
def test_both_is_the_two_products(kind: str) -> None:
    p = problem()
    products: Products = (
        ExactProducts(p) if kind == "exact" else FiniteDifferenceProducts(p, 1e-3, kind)  # type: ignore[arg-type]
    )
    v = like_w(random(len(flat(W)), seed=9))
    pair = products.both(v)
    torch.testing.assert_close(flat(pair.w), flat(products.hessian(v)), rtol=0, atol=1e-12)
    torch.testing.assert_close(flat(pair.alpha), flat(products.mixed(v)), rtol=0, atol=1e-12)


def witness() -> HessianLinearOperator:
    """The Hessian of the training loss without weight decay, by curvlinops."""
    return HessianLinearOperator(NET, nn.CrossEntropyLoss(), [NET.alpha, *W], [TRAIN], check_deterministic=False)


def joint(w_part: Tensor) -> Tensor:
    """A column over w as one over all parameters of the network in their order, where alpha comes first."""
    return torch.cat([torch.zeros(2, dtype=DOUBLE), w_part])


def test_exact_products_agree_with_curvlinops() -> None:
    products = ExactProducts(problem())
    v = random(len(flat(W)), seed=11)
    theirs = witness() @ joint(v)
    torch.testing.assert_close(flat(products.hessian(like_w(v))), theirs[2:] + DECAY * v, rtol=0, atol=1e-12)
    torch.testing.assert_close(flat(products.mixed(like_w(v))), theirs[:2], rtol=0, atol=1e-12)


def decayed(damping: float = 0.0) -> PyTorchLinearOperator:
    """H by curvlinops, weight decay and damping included."""
    hessian = HessianLinearOperator(NET, nn.CrossEntropyLoss(), W, [TRAIN], check_deterministic=False)
    shapes = [tuple(p.shape) for p in W]
    return hessian + (DECAY + damping) * IdentityLinearOperator(shapes, torch.device("cpu"), DOUBLE)


def assert_indirect(method: Method, expected: Tensor, tolerance: float) -> None:
    result = hypergradient_with_diagnostics(train_loss, valid_loss, W, ALPHA, method)
    torch.testing.assert_close(flat(result.indirect), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("terms", [0, 2, 7])
def test_neumann_agrees_with_curvlinops(terms: int) -> None:
    """Their series over the Hessian plus decay, and their product for the mixed part."""
    inverse = NeumannInverseLinearOperator(decayed(), num_terms=terms, scale=GAMMA)
    expected = -(witness() @ joint(inverse @ outer_gradient()))[:2]
    assert_indirect(Neumann(GAMMA, terms), expected, 1e-10)
    assert_indirect(Neumann(GAMMA, terms, "finite_difference", 1e-4, "central"), expected, 1e-7)


def test_conjugate_gradient_agrees_with_curvlinops() -> None:
    damping = 1.0  # the Hessian of a network is indefinite
    inverse = CGInverseLinearOperator(decayed(damping), tolerance=5e-11, eps=1e-30, max_iter=500, max_tridiag_iter=0)
    expected = -(witness() @ joint(inverse @ outer_gradient()))[:2]
    assert_indirect(ConjugateGradient(steps=500, rtol=1e-13, damping=damping), expected, 1e-9)


def test_exact_inverse_agrees_with_the_dense_matrices() -> None:
    hessian, mixed = dense()
    assert_indirect(ExactInverse(), -mixed @ torch.linalg.solve(hessian, outer_gradient()), 1e-10)
