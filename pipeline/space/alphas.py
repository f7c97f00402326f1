"""The result of a search on disk: architecture parameters with what is needed to score them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, get_args

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from pipeline.errors import UserError
from pipeline.rundir import writing
from pipeline.space.cells import Space
from pipeline.space.score import Scale, edge_weights, operation_scores
from pipeline.space.spaces import space_named

_SCHEMA = "1"


@dataclass(frozen=True)
class Alphas:
    """Architecture parameters and relative prices, one [edges, operations] tensor per kind of cell."""

    space: Space
    scale: Scale
    alphas: tuple[Tensor, ...]
    prices: tuple[Tensor, ...]

    def scores(self) -> list[Tensor]:
        """The score of every operation on every edge."""
        return operation_scores(self.space, self.alphas, self.prices, self.scale)

    def weights(self) -> list[Tensor]:
        """What the supernet mixes with."""
        return edge_weights(self.alphas, self.prices, self.scale)


def write_alphas(path: Path, found: Alphas) -> None:
    """Save as safetensors, whole or not at all."""
    tensors = {
        f"{label}.{kind.name}": tensor.detach().cpu().contiguous()
        for label, group in (("alpha", found.alphas), ("price", found.prices))
        for kind, tensor in zip(found.space.kinds, group, strict=True)
    }
    with writing(path) as part:
        save_file(tensors, part, {"schema": _SCHEMA, "space": found.space.name, "scale": found.scale})


def read_alphas(path: Path) -> Alphas:
    """Load what `write_alphas` saved; anything else is refused with a sentence."""
    try:
        with safe_open(path, "pt") as file:
            facts = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except FileNotFoundError:
        raise UserError(f"there is no {path}; run `pipeline search` first") from None
    except (OSError, SafetensorError) as error:
        raise UserError(f"{path} is not a result of `pipeline search`: {error}") from None
    if facts.get("schema") != _SCHEMA or facts.get("scale") not in get_args(Scale):
        raise UserError(f"{path} was not written by this version of `pipeline search`; run it again")
    space = space_named(facts["space"])
    return Alphas(
        space,
        cast(Literal["shifted", "literal", "off"], facts["scale"]),
        _group(path, space, tensors, "alpha"),
        _group(path, space, tensors, "price"),
    )


def _group(path: Path, space: Space, tensors: dict[str, Tensor], label: str) -> tuple[Tensor, ...]:
    group: Sequence[Tensor | None] = [tensors.get(f"{label}.{kind.name}") for kind in space.kinds]
    for kind, tensor in zip(space.kinds, group, strict=True):
        if tensor is None or tensor.shape != (len(kind.edges), len(kind.operations)):
            raise UserError(
                f"{path} does not fit the space {space.name!r}: {label}.{kind.name} is missing or misshapen"
            )
        if not torch.isfinite(tensor).all():
            raise UserError(f"{path}: {label}.{kind.name} has values that are not finite; run `pipeline search` again")
    return tuple(tensor for tensor in group if tensor is not None)
