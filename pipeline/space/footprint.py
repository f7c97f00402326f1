"""How much memory networks take, counted from their sites: on the low side, so that what fits is not refused."""

from collections.abc import Iterable

from pipeline.space import operations
from pipeline.space.genotype import Genotype
from pipeline.space.layers import Normalization
from pipeline.space.plan import all_sites, choice_sites, fixed_sites, network_sites, plan_of
from pipeline.space.sites import Site
from pipeline.space.skeleton import Skeleton
from pipeline.space.spaces import space_named

_FLOAT_BYTES = 4
_LEARNED = 3  # a weight, its gradient and its momentum


def training_bytes(skeleton: Skeleton, genotype: Genotype, images: int) -> int:
    """Training one network on so many images at once."""
    sites = network_sites(skeleton, genotype)
    return _LEARNED * _weight_bytes(sites) + images * _output_bytes(sites)


def supernet_bytes(skeleton: Skeleton, images: int) -> int:
    """A supernet with every operation, run on so many images along the edges that one network keeps.

    Half of an average network's outputs: skips and `none` hand on what is there already.
    """
    plan, space = plan_of(skeleton), space_named(skeleton.space)
    fixed, choices = list(fixed_sites(plan, space)), choice_sites(plan, space)
    outputs = _output_bytes(fixed)
    for kind in space.kinds:
        own = [site for choice, sites in choices.items() if choice.kind == kind.name for site in sites]
        kept = kind.keep * kind.nodes if kind.keep else len(kind.edges)
        outputs += _output_bytes(own) * kept // (2 * len(kind.edges) * len(kind.operations))
    weights = _weight_bytes(fixed)
    for kind in space.kinds:
        each = [_weight_bytes(sites) for choice, sites in choices.items() if choice.kind == kind.name]
        weights += max(each) if kind.nested else sum(each)
    return _LEARNED * weights + images * outputs


def probe_bytes(skeletons: Iterable[Skeleton], copies: int, images: int) -> int:
    """The probes of all sites, one copy and several of each, and the largest output of a call."""
    sites = list(dict.fromkeys(site for skeleton in skeletons for site in all_sites(skeleton)))
    return (1 + copies) * _weight_bytes(sites) + copies * images * max(_output_bytes([site]) for site in sites)


def _weight_bytes(sites: Iterable[Site]) -> int:
    return _FLOAT_BYTES * sum(operations.params(site, Normalization()) for site in sites)


def _output_bytes(sites: Iterable[Site]) -> int:
    """What each site hands on for one image; autograd keeps it for the backward pass."""
    return _FLOAT_BYTES * sum(site.channels_out * max(site.resolution_out, 1) ** 2 for site in sites)
