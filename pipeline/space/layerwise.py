"""Layer-wise spaces: a stem, stages of layers that choose one operation each, a head.

    stem 3×3 → stages → 1×1 convolution → global average → linear layer

A layer is a kind of cell with a single edge, so that search, costs and selection see nothing new. The first layer of a
stage changes width and resolution; the depth of a stage is chosen by `skip`, the identity, on its later layers.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from pipeline.errors import UserError
from pipeline.space.cells import Cell, CellKind, Fixed, Gene, Genes, Plan, Space
from pipeline.space.sites import Site
from pipeline.space.skeleton import Skeleton

SKIP = "skip"


class Stage(NamedTuple):
    """At most so many layers, and the operations that the first one and the later ones choose from."""

    layers: int
    first: tuple[str, ...]
    later: tuple[str, ...] = ()


class Part(NamedTuple):
    """The width of a stem or stage, and the stride of its (first) layer."""

    channels: int
    stride: int


class Sizes(NamedTuple):
    """How wide every part of a network is, and where it halves the resolution."""

    stem: Part
    stages: tuple[Part, ...]
    features: int


class _Layer(NamedTuple):
    """A layer of the space: `stage` counts from 0."""

    kind: CellKind
    stage: int
    is_first: bool


def layer_space(
    stages: Sequence[Stage],
    sizes_of: Callable[[Skeleton], Sizes],
    literature: Skeleton,
    paths: int | None = None,
    nested: bool = False,
) -> Space:
    """The space of all networks of the stages. A step of its search runs `paths` operations per layer (None: all).

    With `nested` the operations of a layer are parts of its widest in the supernet.
    """
    layers = tuple(_layers(stages, paths, nested))
    return Space(
        literature.space,
        tuple(layer.kind for layer in layers),
        literature,
        lambda skeleton: _lay_out(skeleton, layers, sizes_of),
        lambda genes: {"layers": [genes[layer.kind.name][0][0].operation for layer in layers]},
        lambda record: _decode(record, layers),
        lambda genes: _arrange(genes, layers),
    )


def _layers(stages: Sequence[Stage], paths: int | None, nested: bool) -> Iterator[_Layer]:
    places = [(stage, place) for stage, row in enumerate(stages) for place in range(row.layers)]
    for number, (stage, place) in enumerate(places, start=1):
        operations = stages[stage].later if place else stages[stage].first
        kind = CellKind(
            f"layer{number}",
            operations,
            inputs=1,
            nodes=1,
            keep=None,
            none_is_choice=False,
            output="last",
            paths=paths,
            nested=nested,
        )
        yield _Layer(kind, stage, is_first=place == 0)


def _lay_out(skeleton: Skeleton, layers: Sequence[_Layer], sizes_of: Callable[[Skeleton], Sizes]) -> Plan:
    if skeleton.cells != len(layers):
        raise UserError(
            f"cells must be {len(layers)} in the space {skeleton.space!r}, which has that many layers and leaves them "
            f"out by {SKIP!r}; it is {skeleton.cells}"
        )
    sizes = sizes_of(skeleton)
    stem = Site("conv_3x3_relu", skeleton.in_channels, sizes.stem.channels, sizes.stem.stride, skeleton.resolution)
    chain: list[Fixed | Cell] = [Fixed(stem)]
    channels, resolution = stem.channels_out, stem.resolution_out
    for layer in layers:
        width, stride = sizes.stages[layer.stage]
        stride = stride if layer.is_first else 1
        chain.append(Cell(layer.kind.name, channels, width, stride, resolution, ()))
        channels, resolution = width, resolution // stride
    chain.append(Fixed(Site("conv_1x1_relu", channels, sizes.features, 1, resolution)))
    head = Site("head", sizes.features, skeleton.classes, 1, resolution)
    return Plan(tuple(chain), head, auxiliary_after=2 * len(chain) // 3)


def _decode(record: Mapping[str, Any], layers: Sequence[_Layer]) -> Genes:
    names = record["layers"]
    if not isinstance(names, list):
        raise ValueError('"layers" must be a list of operations')
    if len(names) < len(layers):
        raise ValueError(f"{_describe(layers, len(names))} is missing: {len(names)} layers instead of {len(layers)}")
    if len(names) > len(layers):
        raise ValueError(f"layer {len(layers) + 1} is too many: {len(names)} layers instead of {len(layers)}")
    for index, (name, layer) in enumerate(zip(names, layers, strict=True)):
        if name not in layer.kind.choosable:
            raise ValueError(
                f"{_describe(layers, index)} is {name!r}; it may be one of {', '.join(layer.kind.choosable)}"
            )
    return {layer.kind.name: ((Gene(name, 0),),) for name, layer in zip(names, layers, strict=True)}


def _describe(layers: Sequence[_Layer], index: int) -> str:
    layer = layers[index]
    return f"layer {index + 1} ({'the first ' if layer.is_first else ''}of stage {layer.stage + 1})"


def _arrange(genes: Genes, layers: Sequence[_Layer]) -> Genes:
    """Within a stage, the later layers with those that are left out at the end: where they stand changes nothing."""
    starts = [index for index, layer in enumerate(layers) if layer.is_first]
    arranged = dict(genes)
    for start, end in pairwise([*starts, len(layers)]):
        later = [layer.kind.name for layer in layers[start + 1 : end]]
        ordered = sorted((genes[name] for name in later), key=lambda nodes: nodes[0][0].operation == SKIP)
        arranged |= dict(zip(later, ordered, strict=True))
    return arranged
