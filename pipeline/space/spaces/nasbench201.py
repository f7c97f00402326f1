"""The NAS-Bench-201 space: one cell of three nodes, five operations on each of its six edges, every edge kept."""

import re
from collections.abc import Mapping
from typing import Any

from pipeline.space.cells import Cell, CellKind, Fixed, Gene, Genes, Plan, Space
from pipeline.space.sites import Site
from pipeline.space.skeleton import Skeleton

_OPERATIONS = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")
_KIND = CellKind("cell", _OPERATIONS, inputs=1, nodes=3, keep=None, none_is_choice=True, output="last")
_STAGES = 3
_GENE = re.compile(r"([a-z0-9_]+)~(\d+)")


def _lay_out(skeleton: Skeleton) -> Plan:
    """Three stages of cells, each twice as wide and half as large as the one before; `cells` counts all cells."""
    chain: list[Fixed | Cell] = [Fixed(Site("stem", skeleton.in_channels, skeleton.channels, 1, skeleton.resolution))]
    channels, resolution = skeleton.channels, skeleton.resolution
    per_stage = [skeleton.cells // _STAGES + (stage < skeleton.cells % _STAGES) for stage in range(_STAGES)]
    for stage, cells in enumerate(per_stage):
        if stage:
            chain.append(Fixed(Site("residual_reduction", channels, 2 * channels, 2, resolution)))
            channels, resolution = 2 * channels, resolution // 2
        chain += [Cell("cell", channels, channels, 1, resolution, ())] * cells
    head = Site("head_norm", channels, skeleton.classes, 1, resolution)
    return Plan(tuple(chain), head, auxiliary_after=2 * len(chain) // 3)


def _encode(genes: Genes) -> dict[str, Any]:
    nodes = ("|" + "|".join(f"{gene.operation}~{gene.source}" for gene in node) + "|" for node in genes["cell"])
    return {"cell": "+".join(nodes)}


def _decode(record: Mapping[str, Any]) -> Genes:
    nodes = []
    for text in record["cell"].split("+"):
        matches = [_GENE.fullmatch(part) for part in text.strip("|").split("|")]
        if not all(matches):
            raise ValueError(f"{text!r} is not of the form |operation~source|…|")
        nodes.append(tuple(Gene(match[1], int(match[2])) for match in matches if match))
    return {"cell": tuple(nodes)}


_LITERATURE = Skeleton("nasbench201", cells=15, channels=16, resolution=32, classes=10)
NASBENCH201 = Space("nasbench201", (_KIND,), _LITERATURE, _lay_out, _encode, _decode)
