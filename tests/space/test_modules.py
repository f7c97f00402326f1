"""Modules of our own against torch's."""

import pytest
import torch

from pipeline.space.modules import DepthwiseConv2d
from tests.bilevel.problems import random


@pytest.mark.parametrize("side", [8, 20], ids="{} px".format)
@pytest.mark.parametrize("stride", [1, 2])
def test_a_dilated_depthwise_convolution_trains_like_that_of_torch(stride: int, side: int) -> None:
    ours = DepthwiseConv2d(3, 3, 5, stride, padding=4, dilation=2, groups=3, bias=False, dtype=torch.float64).train()
    x = random(2, 3, side, side, seed=0).requires_grad_()
    y, expected = ours(x), torch.conv2d(x, ours.weight, None, stride, 4, 2, 3)
    torch.testing.assert_close(y, expected, rtol=0, atol=1e-12)
    inputs = [x, ours.weight]
    found, wanted = (torch.autograd.grad(out.tanh().sum(), inputs) for out in (y, expected))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)
