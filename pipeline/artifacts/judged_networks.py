"""judged.safetensors of a search: the single networks that it judged on the way, and what they lost."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from pipeline.artifacts.artifact import Typed
from pipeline.artifacts.tensors import pack, unpack
from pipeline.space.cells import CellKind, Gene, Space
from pipeline.space.genotype import Genotype
from pipeline.space.spaces import space_named

_SCHEMA, _LOSSES, _STEPS = "schema", "losses", "steps_per_operation"


@dataclass(frozen=True)
class JudgedNetworks(Typed):
    """Groups of networks; those of one saw the same images with the same weights. Empty after a mixture's search.

    `steps_per_operation` are the weight steps that an operation took part in; None in a file of an earlier version.
    """

    name, maker = "judged", "search"

    space: Space
    groups: Sequence[Sequence[Genotype]]
    losses: Sequence[Sequence[float]]
    steps_per_operation: int | None = None

    def _content(self) -> bytes:
        """Kept operations as numbers [groups, size, edges], −1 where an edge is left out."""
        chosen = {
            kind.name: torch.tensor([[_encode(kind, one) for one in group] for group in self.groups], dtype=torch.int8)
            for kind in self.space.kinds
        }
        tensors = {**chosen, _LOSSES: torch.tensor(self.losses, dtype=torch.float32)}
        facts = {_SCHEMA: str(self.version), "space": self.space.name}
        known = {} if self.steps_per_operation is None else {_STEPS: str(self.steps_per_operation)}
        return pack(tensors, facts | known)

    @classmethod
    def _parse(cls, content: bytes) -> Self:
        found = unpack(content)
        cls._check_version(found.facts.get(_SCHEMA, 1))
        if "space" not in found.facts:
            raise ValueError("it does not say its space")
        space, steps = space_named(found.facts["space"]), int(found.facts[_STEPS]) if _STEPS in found.facts else None
        losses = found.tensors.get(_LOSSES)
        if losses is None or not torch.isfinite(losses).all():
            raise ValueError("its losses are missing or not finite")
        if not losses.numel():
            return cls(space, [], [], steps)
        for kind in space.kinds:
            _check(kind, found.tensors, losses)
        groups = [
            [_decode(space, {kind.name: found.tensors[kind.name][g, i] for kind in space.kinds}) for i in range(size)]
            for g, size in enumerate([losses.shape[1]] * losses.shape[0])
        ]
        return cls(space, groups, losses.tolist(), steps)


def _encode(kind: CellKind, network: Genotype) -> list[int]:
    row = [-1] * len(kind.edges)
    for kept in network.kept(kind):
        row[kept.edge] = kind.operations.index(kept.operation)
    return row


def _check(kind: CellKind, tensors: dict[str, Tensor], losses: Tensor) -> None:
    chosen = tensors.get(kind.name)
    if chosen is None or losses.ndim != 2 or chosen.shape != (*losses.shape, len(kind.edges)):
        raise ValueError(f"{kind.name} is missing or misshapen")
    if chosen.min() < -1 or chosen.max() >= len(kind.operations):
        raise ValueError(f"{kind.name} names an operation that the space does not have")


def _decode(space: Space, chosen: dict[str, Tensor]) -> Genotype:
    cells = {}
    for kind in space.kinds:
        row = chosen[kind.name].tolist()
        cells[kind.name] = tuple(
            tuple(
                Gene(kind.operations[row[edge]], kind.edges[edge].source)
                for edge in kind.edges_into(node)
                if row[edge] >= 0
            )
            for node in range(kind.nodes)
        )
    return Genotype(space.name, cells)
