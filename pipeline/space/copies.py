"""One of several copies of an operation that lie side by side in the channels, run alone.

The parameters and statistics of copy i of n are the i-th part of n along the first dimension (`pipeline.space.layers`),
so a slice of them is an operation of its own, which takes and gives one feature map.
"""

from torch import Tensor, nn

from pipeline.space.modules import ShiftedHalves


def run_copy(module: nn.Module, x: Tensor, place: int, copies: int) -> Tensor:
    """What copy number `place` makes of x."""
    if isinstance(module, nn.Sequential):
        for part in module:
            x = run_copy(part, x, place, copies)
        return x
    if isinstance(module, nn.Conv2d):
        return _convolve(module, x, place, copies)
    if isinstance(module, nn.BatchNorm2d):
        return _normalize(module, x, place, copies)
    if isinstance(module, ShiftedHalves):
        return module.join(
            _convolve(module.even, x, place, copies), _convolve(module.odd, module.shift(x), place, copies)
        )
    y: Tensor = module(x)
    return y


def _convolve(module: nn.Conv2d, x: Tensor, place: int, copies: int) -> Tensor:
    """A convolution in groups has as many per copy; one that all copies read their common input by has a single one."""
    weight = module.weight.chunk(copies)[place]
    groups = x.shape[1] // weight.shape[1]
    return nn.functional.conv2d(x, weight, None, module.stride, module.padding, module.dilation, groups)


def _normalize(module: nn.BatchNorm2d, x: Tensor, place: int, copies: int) -> Tensor:
    mean, variance, scale, shift = (
        None if tensor is None else tensor.chunk(copies)[place]
        for tensor in (module.running_mean, module.running_var, module.weight, module.bias)
    )
    assert module.momentum is not None
    return nn.functional.batch_norm(x, mean, variance, scale, shift, module.training, module.momentum, module.eps)
