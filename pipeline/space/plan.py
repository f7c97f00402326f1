"""Plans of whole networks: laid out by the space, checked, and read as lists of sites."""

from collections.abc import Iterator
from dataclasses import fields, replace
from functools import lru_cache
from typing import Any, NamedTuple, get_args

from pipeline.errors import UserError
from pipeline.space import operations
from pipeline.space.cells import Fixed, Plan, Space
from pipeline.space.genotype import Genotype
from pipeline.space.layers import Normalization
from pipeline.space.sites import Site
from pipeline.space.skeleton import Skeleton, Stem
from pipeline.space.spaces import space_named

_SMALLEST_PX, _LARGEST_PX = 4, 4096
_MOST = {"cells": 500, "channels": 4096, "classes": 1_000_000, "in_channels": 1024}


class Choice(NamedTuple):
    """One operation on one edge of a kind of cell."""

    kind: str
    edge: int
    operation: str


@lru_cache(maxsize=256)
def plan_of(skeleton: Skeleton) -> Plan:
    """The network that the space lays out around the skeleton; sizes that cannot be built are refused."""
    for name, most in _MOST.items():
        if not 1 <= getattr(skeleton, name) <= most:
            raise UserError(f"{name} must be 1 to {most:,}, not {getattr(skeleton, name)}")
    if skeleton.channels % 2 and skeleton.imagenet_stem:
        raise UserError(f"channels must be even for the ImageNet stem, not {skeleton.channels}")
    space = space_named(skeleton.space)
    if not _divides_evenly(skeleton, space):
        raise UserError(
            f"a resolution of {skeleton.resolution} px cannot be halved as often as the network does; "
            f"the nearest that can is {nearest_resolution(skeleton, skeleton.resolution)} px"
        )
    return space.lay_out(skeleton)


def skeleton_from_record(value: Any) -> Skeleton:
    """The skeleton in parsed JSON; a ValueError or UserError says why there is none."""
    kinds = {field.name: str if field.name in ("space", "stem") else int for field in fields(Skeleton)}
    found = {name: type(part) for name, part in value.items()} if isinstance(value, dict) else {}
    if found != kinds or value["stem"] not in get_args(Stem):
        raise ValueError(f"not a skeleton, which has {', '.join(kinds)}")
    skeleton = Skeleton(**value)
    plan_of(skeleton)
    return skeleton


def _divides_evenly(skeleton: Skeleton, space: Space) -> bool:
    if not _SMALLEST_PX <= skeleton.resolution <= _LARGEST_PX:
        return False
    try:
        plan = space.lay_out(skeleton)
    except ZeroDivisionError:  # halved away to nothing
        return False
    strides = [(site.resolution, site.stride) for site in fixed_sites(plan, space)]
    strides += [(cell.resolution, cell.stride) for cell in plan.cells]
    return all(resolution % stride == 0 and resolution >= stride for resolution, stride in strides)


def nearest_resolution(skeleton: Skeleton, wanted: int) -> int:
    """The resolution nearest to the one wanted at which the skeleton can be built, with the stem that it has."""
    space = space_named(skeleton.space)
    stem: Stem = "imagenet" if skeleton.imagenet_stem else "cifar"
    by_distance = sorted(range(_SMALLEST_PX, _LARGEST_PX + 1), key=lambda px: (abs(px - wanted), -px))
    return next(px for px in by_distance if _divides_evenly(replace(skeleton, resolution=px, stem=stem), space))


def fixed_sites(plan: Plan, space: Space) -> Iterator[Site]:
    """The sites that every network of the plan has."""
    for part in plan.chain:
        if isinstance(part, Fixed):
            yield part.site
        else:
            yield from part.preprocess
            output = part.output_site(space.kind(part.kind))
            if output is not None:
                yield output
    yield plan.head


def choice_sites(plan: Plan, space: Space) -> dict[Choice, list[Site]]:
    """For every choice the search has, the sites it occupies in the whole network."""
    sites: dict[Choice, list[Site]] = {
        Choice(kind.name, edge, operation): []
        for kind in space.kinds
        for edge in range(len(kind.edges))
        for operation in kind.operations
    }
    for cell in plan.cells:
        kind = space.kind(cell.kind)
        for index, edge in enumerate(kind.edges):
            for operation in kind.operations:
                sites[Choice(kind.name, index, operation)].append(cell.site(kind, edge, operation))
    return sites


def network_sites(skeleton: Skeleton, genotype: Genotype) -> list[Site]:
    """Every site of one network."""
    if genotype.space != skeleton.space:
        raise UserError(f"the genotype is of the space {genotype.space!r}, the network of {skeleton.space!r}")
    plan, space = plan_of(skeleton), space_named(skeleton.space)
    sites = list(fixed_sites(plan, space))
    for cell in plan.cells:
        kind = space.kind(cell.kind)
        sites += [cell.site(kind, kind.edges[kept.edge], kept.operation) for kept in genotype.kept(kind)]
    return sites


def all_sites(skeleton: Skeleton) -> list[Site]:
    """Every site that any network around the skeleton may need, once each, in a stable order."""
    plan, space = plan_of(skeleton), space_named(skeleton.space)
    chosen = (site for sites in choice_sites(plan, space).values() for site in sites)
    return list(dict.fromkeys([*fixed_sites(plan, space), *chosen]))


def count_macs(skeleton: Skeleton, genotype: Genotype) -> int:
    """Multiply-adds of the network's convolutions and linear layers for one image."""
    return sum(operations.macs(site) for site in network_sites(skeleton, genotype))


def count_params(skeleton: Skeleton, genotype: Genotype, norm: Normalization | None = None) -> int:
    """Learnable parameters of the network, without the auxiliary head."""
    return sum(operations.params(site, norm or Normalization()) for site in network_sites(skeleton, genotype))
