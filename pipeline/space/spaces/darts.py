"""The DARTS space: a normal and a reduction cell of four nodes, eight operations, two kept inputs per node."""

from collections.abc import Mapping
from typing import Any

from pipeline.space.cells import Cell, CellKind, Fixed, Gene, Genes, Plan, Space
from pipeline.space.sites import Site
from pipeline.space.skeleton import Skeleton

_OPERATIONS = (
    "none",
    "max_pool_3x3",
    "avg_pool_3x3",
    "skip_connect",
    "sep_conv_3x3",
    "sep_conv_5x5",
    "dil_conv_3x3",
    "dil_conv_5x5",
)
_NODES = 4
_KEEP = 2
_CIFAR_STEM_MULTIPLIER = 3
_KINDS = tuple(
    CellKind(name, _OPERATIONS, inputs=2, nodes=_NODES, keep=_KEEP, none_is_choice=False, output="concat")
    for name in ("normal", "reduce")
)


class _Output:
    """Width and resolution of what the chain has produced so far."""

    def __init__(self, channels: int, resolution: int) -> None:
        self.channels, self.resolution = channels, resolution


def _stem(skeleton: Skeleton) -> list[Site]:
    c, r = skeleton.channels, skeleton.resolution
    if skeleton.imagenet_stem:
        return [Site("stem_quarter", skeleton.in_channels, c, 4, r), Site("stem_half", c, c, 2, r // 4)]
    return [Site("stem", skeleton.in_channels, _CIFAR_STEM_MULTIPLIER * c, 1, r)]


def _lay_out(skeleton: Skeleton) -> Plan:
    stem = _stem(skeleton)
    outputs = [_Output(site.channels_out, site.resolution_out) for site in stem]
    chain: list[Fixed | Cell] = [Fixed(site) for site in stem]
    reductions = {skeleton.cells // 3, 2 * skeleton.cells // 3}
    channels = skeleton.channels
    for index in range(skeleton.cells):
        reducing = index in reductions
        channels *= 2 if reducing else 1
        stride = 2 if reducing else 1
        resolution = outputs[-1].resolution
        preprocess = tuple(
            Site("preprocess", o.channels, channels, o.resolution // resolution, o.resolution)
            for o in (outputs[-2] if len(outputs) > 1 else outputs[-1], outputs[-1])
        )
        chain.append(Cell("reduce" if reducing else "normal", channels, channels, stride, resolution, preprocess))
        outputs.append(_Output(_NODES * channels, resolution // stride))
    head = Site("head", outputs[-1].channels, skeleton.classes, 1, outputs[-1].resolution)
    return Plan(tuple(chain), head, auxiliary_after=len(stem) + 2 * skeleton.cells // 3)


def _encode(genes: Genes) -> dict[str, Any]:
    return {kind: [[gene.operation, gene.source] for node in nodes for gene in node] for kind, nodes in genes.items()}


def _decode(record: Mapping[str, Any]) -> Genes:
    genes: dict[str, tuple[tuple[Gene, ...], ...]] = {}
    for kind in _KINDS:
        pairs = [Gene(operation, source) for operation, source in record[kind.name]]
        if len(pairs) != _NODES * _KEEP:
            raise ValueError(f"{kind.name!r} has {len(pairs)} pairs, but {_NODES} nodes keep {_KEEP} inputs each")
        genes[kind.name] = tuple(tuple(pairs[i : i + _KEEP]) for i in range(0, len(pairs), _KEEP))
    return genes


_LITERATURE = Skeleton("darts", cells=20, channels=36, resolution=32, classes=10)
DARTS = Space("darts", _KINDS, _LITERATURE, _lay_out, _encode, _decode)
