"""Our convolution against torch's, up to its second derivative."""

import pytest
import torch
from torch import Tensor, nn

from pipeline.bilevel.differentiation import TwiceDifferentiable
from tests.bilevel.problems import flat, random

SHAPES = [  # channels in, channels out, kernel, stride, padding, dilation, groups
    (4, 6, 3, 1, 1, 1, 1),
    (4, 6, 1, 2, 0, 1, 1),
    (4, 4, 3, 2, 1, 1, 4),
    (4, 4, 5, 1, 4, 2, 4),
    (4, 4, 3, 1, 3, 3, 4),
    (4, 4, 5, 1, 2, 2, 4),
    (4, 8, 3, 1, 2, 2, 4),
    (4, 8, 3, 1, 1, 1, 2),
]


def second_derivatives(convolution: nn.Conv2d, x: Tensor, scales: Tensor) -> list[Tensor]:
    """d(v . dloss/dw)/d(w, x, scales) for a loss with curvature on both sides of the convolution."""
    inputs = [*convolution.parameters(), x, scales]
    loss = (convolution((x * scales[0]).tanh()) * scales[1]).cosh().log().sum()
    first = torch.autograd.grad(loss, inputs, create_graph=True)
    v = [random(*g.shape, seed=i) for i, g in enumerate(first)]
    return [*first, *torch.autograd.grad(first, inputs, v)]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=repr)
def test_first_and_second_derivatives_are_those_of_torch(shape: tuple[int, ...], bias: bool) -> None:
    channels, out, kernel, stride, padding, dilation, groups = shape
    convolution = nn.Conv2d(channels, out, kernel, stride, padding, dilation, groups, bias, dtype=torch.float64)
    x, scales = random(2, channels, 8, 8, seed=1).requires_grad_(), random(2, seed=2).requires_grad_()
    with TwiceDifferentiable():
        assert bias or type(convolution(x).grad_fn).__name__ == "ConvolutionBackward"  # torch's ends in 0
        ours = second_derivatives(convolution, x, scales)
    torch.testing.assert_close(flat(ours), flat(second_derivatives(convolution, x, scales)), rtol=0, atol=1e-10)


@pytest.mark.parametrize("needs", ["x", "w", "both"])
def test_only_what_is_asked_is_computed(needs: str) -> None:
    convolution = nn.Conv2d(3, 3, 3, groups=3, bias=False, dtype=torch.float64)
    convolution.requires_grad_(needs != "x")
    x = random(1, 3, 5, 5, seed=0).requires_grad_(needs != "w")
    inputs = [t for t in (x, convolution.weight) if t.requires_grad]

    def derivatives() -> list[Tensor]:
        first = torch.autograd.grad((convolution(x) ** 3).sum(), inputs, create_graph=True)
        return [*first, *torch.autograd.grad(first[0].sum(), inputs)]

    with TwiceDifferentiable():
        ours = derivatives()
    torch.testing.assert_close(flat(ours), flat(derivatives()), rtol=0, atol=1e-11)


@pytest.mark.parametrize("padding", ["same", "valid"])
def test_other_convolutions_are_left_to_torch(padding: str) -> None:
    x = random(1, 2, 6, 6, seed=0)
    convolution = nn.Conv2d(2, 2, 3, padding=padding, dtype=torch.float64)
    single = nn.Conv2d(2, 2, 3, dtype=torch.float64)
    with TwiceDifferentiable():
        assert torch.equal(convolution(x), convolution(x))
        assert single(x[0]).shape == (2, 4, 4)
        assert type(single(x[0]).grad_fn).__name__ != "ConvolutionBackward"
