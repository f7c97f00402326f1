"""Operations whose weights are parts of the widest one's: the middle of its kernel, the first of its channels.

Thirteen inverted bottlenecks on each of 22 layers with weights of their own do not learn together in minutes: every one
sees a thirteenth of the steps, and none can rely on what comes before it. As parts of one another (Once-for-All,
BigNAS) all of them learn from every step, and there are far fewer weights (benchmarks/results/mobile.md).
"""

from collections.abc import Mapping

from torch import Tensor, nn

from pipeline.space.modules import SqueezeExcite


class PartOf(nn.Module):
    """A convolution with a part of the weights of another one, `whole`, which holds them."""

    def __init__(self, own: nn.Conv2d, whole: nn.Conv2d) -> None:
        super().__init__()
        self._shape, self._has_bias = tuple(own.weight.shape), own.bias is not None
        self._stride, self._padding, self._is_depthwise = own.stride, own.padding, own.groups > 1
        self._whole = (whole,)  # not one of our modules: its weights have one name in the supernet

    @property
    def weight(self) -> Tensor:
        weight = self._whole[0].weight
        wide, deep, kernel, _ = self._shape
        edge = (weight.shape[-1] - kernel) // 2
        return weight[:wide, :deep, edge : edge + kernel, edge : edge + kernel]

    @property
    def bias(self) -> Tensor | None:
        bias = self._whole[0].bias
        return bias[: self._shape[0]] if self._has_bias and bias is not None else None

    def forward(self, x: Tensor) -> Tensor:
        groups = x.shape[1] if self._is_depthwise else 1
        return nn.functional.conv2d(x, self.weight, self.bias, self._stride, self._padding, 1, groups)

    def state(self) -> dict[str, Tensor]:
        """What a convolution of its own would hold."""
        bias = self.bias
        return {"weight": self.weight.detach(), **({} if bias is None else {"bias": bias.detach()})}


def nest(modules: Mapping[str, nn.Module]) -> None:
    """Let the convolutions of all modules be parts of those of the one with the most weights.

    They correspond by their order, those of the squeeze-excite that some have apart from the others. A module that is
    made otherwise, such as a skip that has to change the width, keeps its own.
    """
    widest = max(modules.values(), key=lambda module: sum(weight.numel() for weight in module.parameters()))
    outer, gates = _convolutions(widest)
    for module in modules.values():
        own_outer, own_gates = _convolutions(module)
        if module is widest or len(own_outer) != len(outer):
            continue
        pairs = [*zip(own_outer, outer, strict=True), *zip(own_gates, gates, strict=bool(own_gates))]
        for (parent, name), (holder, whole) in pairs:
            setattr(parent, name, PartOf(_convolution(parent, name), _convolution(holder, whole)))


def state_of(module: nn.Module) -> dict[str, Tensor]:
    """The parameters and statistics of a module, as one that shares nothing holds them."""
    state = dict(module.state_dict())
    for name, part in module.named_modules():
        if isinstance(part, PartOf):
            state |= {f"{name}.{key}": value for key, value in part.state().items()}
    return state


_Places = list[tuple[nn.Module, str]]


def _convolutions(module: nn.Module) -> tuple[_Places, _Places]:
    """Where the convolutions of an operation are, and those of its gate."""
    outer, gates = _Places(), _Places()
    gated = {part for one in module.modules() if isinstance(one, SqueezeExcite) for part in one.modules()}
    for parent in module.modules():
        for name, child in parent.named_children():
            if isinstance(child, nn.Conv2d):
                (gates if parent in gated else outer).append((parent, name))
    return outer, gates


def _convolution(parent: nn.Module, name: str) -> nn.Conv2d:
    child = getattr(parent, name)
    assert isinstance(child, nn.Conv2d)
    return child
