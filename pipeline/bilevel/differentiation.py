"""The operations that our graphs hold in place of torch's, because torch's second derivative of them is slow."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from pipeline.bilevel.convolution import conv2d
from pipeline.bilevel.normalization import batch_norm

OURS: dict[Callable[..., Any], Callable[..., Any]] = {
    torch.conv2d: conv2d,
    torch.nn.functional.batch_norm: batch_norm,
}


class TwiceDifferentiable(TorchFunctionMode):
    """While it is entered, convolutions and BatchNorms are ours: the same numbers up to rounding."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return OURS.get(func, func)(*args, **(kwargs or {}))
