"""Our BatchNorm against torch's, up to its second derivative."""

import pytest
import torch
from torch import Tensor, nn

from pipeline.bilevel.differentiation import TwiceDifferentiable
from tests.bilevel.problems import flat, random
from tests.bilevel.test_promises import same_bits


def module(kind: type[nn.Module], affine: bool, track: bool) -> nn.Module:
    torch.manual_seed(0)
    built = kind(3, affine=affine, track_running_stats=track, dtype=torch.float64)
    for p in built.parameters():
        nn.init.normal_(p)
    return built


def derivatives(norm: nn.Module, x: Tensor, scales: Tensor) -> list[Tensor]:
    """First derivatives, and the second ones along a random direction, with curvature on both sides of the module."""
    inputs = [*norm.parameters(), x, scales]
    loss = ((norm((x * scales[0]).tanh()) * scales[1]).cosh().log() * random(*x.shape, seed=5)).sum()
    first = torch.autograd.grad(loss, inputs, create_graph=True)
    v = [random(*g.shape, seed=i) for i, g in enumerate(first)]
    return [*first, *torch.autograd.grad(first, inputs, v)]


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("track", [False, True])
@pytest.mark.parametrize(
    ("kind", "shape"), [(nn.BatchNorm2d, (4, 3, 5, 6)), (nn.BatchNorm1d, (7, 3)), (nn.BatchNorm1d, (2, 3, 4))]
)
def test_first_and_second_derivatives_are_those_of_torch(
    kind: type[nn.Module], shape: tuple[int, ...], track: bool, affine: bool
) -> None:
    x, scales = (2 * random(*shape, seed=1) + 0.5).requires_grad_(), random(2, seed=2).requires_grad_()
    theirs_module, ours_module = module(kind, affine, track), module(kind, affine, track)
    theirs = derivatives(theirs_module, x, scales)
    with TwiceDifferentiable():
        assert affine or type(ours_module(x).grad_fn).__name__ == "NormalizationBackward"
        ours_module.load_state_dict(module(kind, affine, track).state_dict())
        ours = derivatives(ours_module, x, scales)
    torch.testing.assert_close(flat(ours), flat(theirs), rtol=0, atol=1e-10)
    assert same_bits(list(ours_module.buffers()), list(theirs_module.buffers()))


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_layout_and_single_precision(memory_format: torch.memory_format) -> None:
    x = random(4, 3, 6, 6, seed=1).to(torch.float32, memory_format=memory_format).requires_grad_()
    norm = nn.BatchNorm2d(3, affine=False)

    def second() -> Tensor:
        (g,) = torch.autograd.grad((norm(x) ** 3).sum(), x, create_graph=True)
        return torch.autograd.grad(g.tanh().sum(), x)[0]

    with TwiceDifferentiable():
        ours = second()
    assert ours.is_contiguous(memory_format=memory_format)
    torch.testing.assert_close(ours, second(), rtol=1e-3, atol=1e-4)


def test_evaluation_mode_is_left_to_torch() -> None:
    norm = module(nn.BatchNorm2d, affine=True, track=True).eval()
    x = random(2, 3, 4, 4, seed=1).requires_grad_()
    with TwiceDifferentiable():
        ours = norm(x)
    assert torch.equal(ours, norm(x))
    with TwiceDifferentiable(), pytest.raises(ValueError, match="more than 1 value"):
        norm.train()(x[:1, :, :1, :1])
