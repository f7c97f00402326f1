"""alphas.safetensors and weights.safetensors of a search: what it found, and the supernet it found it with."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self, cast, get_args

import torch
from torch import Tensor

from pipeline.artifacts.artifact import Typed
from pipeline.artifacts.tensors import pack, unpack
from pipeline.errors import UserError
from pipeline.space.cells import Space
from pipeline.space.score import Scale, edge_weights, operation_scores
from pipeline.space.skeleton import Skeleton
from pipeline.space.spaces import space_named
from pipeline.space.supernet import Supernet

_SCHEMA = "schema"


@dataclass(frozen=True)
class Alphas(Typed):
    """Architecture parameters and relative prices, one [edges, operations] tensor per kind of cell.

    `unpenalized` is α without the budget penalty's part of its steps: scores, which a selection maximizes under a hard
    limit, come from it. A file without it is of a search without a penalty.
    """

    name, maker = "alphas", "search"

    space: Space
    scale: Scale
    alphas: tuple[Tensor, ...]
    prices: tuple[Tensor, ...]
    unpenalized: tuple[Tensor, ...] = ()

    def scores(self) -> list[Tensor]:
        """The score of every operation on every edge."""
        return operation_scores(self.space, self.unpenalized or self.alphas)

    def weights(self) -> list[Tensor]:
        """What the supernet mixes with."""
        return edge_weights(self.alphas, self.prices, self.scale)

    def _content(self) -> bytes:
        groups = {"alpha": self.alphas, "price": self.prices, "unpenalized": self.unpenalized}
        tensors = {
            f"{label}.{kind.name}": tensor
            for label, group in groups.items()
            for kind, tensor in zip(self.space.kinds, group, strict=bool(group))
        }
        return pack(tensors, {_SCHEMA: str(self.version), "space": self.space.name, "scale": self.scale})

    @classmethod
    def _parse(cls, content: bytes) -> Self:
        found = unpack(content)
        cls._check_version(found.facts.get(_SCHEMA, 1))
        if found.facts.get("scale") not in get_args(Scale) or "space" not in found.facts:
            raise ValueError("it does not say its space and scale")
        space = space_named(found.facts["space"])
        alphas, prices = (_group(space, found.tensors, label) for label in ("alpha", "price"))
        stated = any(name.startswith("unpenalized.") for name in found.tensors)
        unpenalized = _group(space, found.tensors, "unpenalized") if stated else ()
        return cls(space, cast(Scale, found.facts["scale"]), alphas, prices, unpenalized)


@dataclass(frozen=True)
class SupernetWeights(Typed):
    """The state of the supernet at the end of a search."""

    name, maker = "supernet_weights", "search"

    state: Mapping[str, Tensor]

    def build(self, skeleton: Skeleton) -> Supernet:
        """The supernet with these weights."""
        supernet = Supernet(skeleton)
        try:
            supernet.load_state_dict(self.state)
        except RuntimeError:
            raise UserError(
                "the supernet's weights are not those of a search with these settings; run `pipeline search` again"
            ) from None
        return supernet

    def _content(self) -> bytes:
        return pack(self.state, {_SCHEMA: str(self.version)})

    @classmethod
    def _parse(cls, content: bytes) -> Self:
        found = unpack(content)
        cls._check_version(found.facts.get(_SCHEMA, 1))
        return cls(found.tensors)


def _group(space: Space, tensors: Mapping[str, Tensor], label: str) -> tuple[Tensor, ...]:
    group = {f"{label}.{kind.name}": (len(kind.edges), len(kind.operations)) for kind in space.kinds}
    for name, shape in group.items():
        if name not in tensors or tensors[name].shape != shape:
            raise ValueError(f"it does not fit the space {space.name!r}: {name} is missing or misshapen")
        if not torch.isfinite(tensors[name]).all():
            raise ValueError(f"{name} has values that are not finite")
    return tuple(tensors[name] for name in group)
