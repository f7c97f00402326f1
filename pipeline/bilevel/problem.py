"""The two losses at the caller's point, and the promise to leave that point as it was.

`inner` is L1, `outer` is L2; both map (w, alpha) to a scalar and must give the same value whenever they are called at
the same point. `w` and `alpha` are leaf tensors that require a gradient. Where a method needs a loss at other weights,
these are written into the tensors of `w` and the old bits are put back afterwards, so a loss may read its arguments or
close over a module whose parameters are those very tensors.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from pipeline.bilevel.vectors import Vector, copies, zeros_like

Loss = Callable[[Sequence[Tensor], Sequence[Tensor]], Tensor]
Reduce = Callable[[Vector], Vector]


@dataclass(frozen=True)
class Composition:
    """A loss phi(z(w, alpha), alpha), phi convex in the outputs z: a `Loss` whose parts Gauss-Newton products can see.

    phi reads the weights through z alone, so a weight decay in phi needs them among the outputs.
    """

    outputs: Callable[[Sequence[Tensor], Sequence[Tensor]], Sequence[Tensor]]
    """(w, alpha) -> z, for instance the logits and the weights themselves."""
    convex: Callable[[Sequence[Tensor], Sequence[Tensor]], Tensor]
    """(z, alpha) -> phi, for instance cross entropy plus decay."""

    def __call__(self, w: Sequence[Tensor], alpha: Sequence[Tensor]) -> Tensor:
        return self.convex(self.outputs(w, alpha), alpha)


class Pair(NamedTuple):
    """A vector in the space of w beside one in the space of alpha."""

    w: Vector
    alpha: Vector


class ValueAndGradient(NamedTuple):
    """A loss of this rank and its derivatives."""

    value: Tensor
    gradient: Vector


@dataclass(frozen=True)
class Problem:
    """L1, L2 and the point (w, alpha); `reduce` sees every gradient and product that enters the result.

    `W`, `ALPHA` and `BOTH` select from `tensors`, which is w followed by alpha.
    """

    inner: Loss
    outer: Loss
    w: Sequence[Tensor]
    alpha: Sequence[Tensor]
    reduce: Reduce
    buffers: Sequence[Tensor]

    BOTH: ClassVar[slice] = slice(None)

    def __post_init__(self) -> None:
        if not all(x.is_leaf and x.requires_grad for x in self.tensors):
            raise ValueError("every tensor of w and alpha must be a leaf that requires a gradient")
        if len({id(x) for x in self.tensors}) != len(self.tensors):
            raise ValueError("a tensor appears twice in w and alpha")

    @property
    def tensors(self) -> Vector:
        return [*self.w, *self.alpha]

    @property
    def W(self) -> slice:  # noqa: N802
        return slice(0, len(self.w))

    @property
    def ALPHA(self) -> slice:  # noqa: N802
        return slice(len(self.w), None)

    def gradient(self, loss: Loss, part: slice, create_graph: bool = False) -> Vector:
        """dloss/dtensors[part] of this rank at the present weights; zeros for what the loss does not use."""
        return self.value_and_gradient(loss, part, create_graph).gradient

    def value_and_gradient(self, loss: Loss, part: slice, create_graph: bool = False) -> ValueAndGradient:
        """The loss beside its gradient, from the same pass; an empty part takes no pass back."""
        with preserved(self.buffers), torch.enable_grad():
            value = loss(self.w, self.alpha)
            if value.numel() != 1:
                raise ValueError(f"a loss must return one number, this one returned shape {tuple(value.shape)}")
            gradient = differentiate([value], self.tensors[part], create_graph=create_graph)
            return ValueAndGradient(value.detach().reshape(()), gradient)

    def load(self, weights: Sequence[Tensor]) -> None:
        """Write `weights` into w."""
        load(self.w, weights)

    def split(self, both: Vector) -> Pair:
        """A vector over `tensors`, cut in two."""
        return Pair(both[self.W], both[self.ALPHA])


def differentiate(
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    weights: Sequence[Tensor] | None = None,
    *,
    create_graph: bool = False,
    retain_graph: bool | None = None,
) -> Vector:
    """d(sum of weights . outputs)/dinputs; outputs and inputs without a path between them add zeros."""
    kept = [i for i, output in enumerate(outputs) if output.requires_grad]
    if not kept or not inputs:
        return zeros_like(inputs)
    return list(
        torch.autograd.grad(
            [outputs[i] for i in kept],
            inputs,
            None if weights is None else [weights[i] for i in kept],
            create_graph=create_graph,
            retain_graph=retain_graph,
            allow_unused=True,
            materialize_grads=True,
        )
    )


@contextmanager
def preserved(tensors: Sequence[Tensor]) -> Iterator[Vector]:
    """Copies of the tensors, whose bits are put back at the end, whatever happens."""
    saved = copies(tensors)
    try:
        yield saved
    finally:
        load(tensors, saved)


def load(tensors: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    """Write values into the tensors, past autograd: a graph the caller holds stays valid, as the old bits return."""
    for tensor, value in zip(tensors, values, strict=True):
        tensor.data.copy_(value)
