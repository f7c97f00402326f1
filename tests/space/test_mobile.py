"""The layer-wise spaces against networks that others have built, and files that are wrong."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch

from pipeline.errors import UserError
from pipeline.space.genotype import Genotype, genotype_from_record
from pipeline.space.genotype_file import read_genotype
from pipeline.space.network import Network
from pipeline.space.plan import all_sites, count_macs, count_params, network_sites, plan_of
from pipeline.space.sampling import random_genotype
from pipeline.space.skeleton import Skeleton
from tests.space.test_counts import fvcore_macs

KERNELS = (3, 3, 3, 3, 3)
LITE_KERNELS = (3, 5, 3, 5, 5)


def mobile(channels: int = 32, resolution: int = 224, classes: int = 1000, **changes: Any) -> Skeleton:
    return Skeleton("mobile", 22, channels, resolution, classes, **changes)


def published(layers: tuple[int, ...], kernels: tuple[int, ...], suffix: str = "") -> dict[str, Any]:
    """A network of expansion 6 with so many layers in stages 2 to 6, as a genotype file has it."""
    middle = [
        operation
        for count, kernel in zip(layers, kernels, strict=True)
        for operation in [f"mb6_k{kernel}{suffix}"] * count + ["skip"] * (4 - count)
    ]
    return {"space": "mobile", "layers": [f"mb1_k3{suffix}", *middle, f"mb6_k3{suffix}"]}


MOBILENET_V2 = published((2, 3, 4, 3, 3), KERNELS)
EFFICIENTNET_LITE0 = published((2, 2, 3, 3, 4), LITE_KERNELS)
EFFICIENTNET_B0 = published((2, 2, 3, 3, 4), LITE_KERNELS, "_se")


@pytest.mark.parametrize(
    ("name", "record", "channels"),
    [
        ("mobilenetv2_100", MOBILENET_V2, 32),
        ("mobilenetv2_050", MOBILENET_V2, 16),
        ("efficientnet_lite0", EFFICIENTNET_LITE0, 40),
        ("efficientnet_b0", EFFICIENTNET_B0, 40),  # swish apart, which has no weights
    ],
)
def test_networks_of_the_literature(name: str, record: dict[str, Any], channels: int) -> None:
    theirs, genotype, skeleton = timm.create_model(name), genotype_from_record(record), mobile(channels)
    assert count_params(skeleton, genotype) == sum(p.numel() for p in theirs.parameters())
    assert count_macs(skeleton, genotype) == fvcore_macs(theirs, (1, 3, 224, 224))


@pytest.mark.parametrize("skeleton", [mobile(8, 32, 7, in_channels=1), mobile(24, 96, 5)], ids=["cifar", "imagenet"])
def test_counts_are_those_of_the_network(skeleton: Skeleton) -> None:
    for seed in range(3):
        genotype = random_genotype("mobile", np.random.default_rng(seed))
        network = Network(skeleton, genotype)
        shape = (1, skeleton.in_channels, skeleton.resolution, skeleton.resolution)
        assert count_params(skeleton, genotype) == sum(p.numel() for p in network.parameters())
        assert count_macs(skeleton, genotype) == fvcore_macs(network, shape)


def test_equal_layers_share_their_sites() -> None:
    """Stages 2 to 6 have a first layer and three equal later ones; the table times each once."""
    sites = all_sites(mobile())
    chosen = [site for site in sites if site.operation.startswith(("mb", "skip"))]
    assert len(chosen) == 6 + 5 * 12 + 5 * 13 + 12
    assert len({site.key for site in sites}) == len(sites)
    assert set(network_sites(mobile(), genotype_from_record(MOBILENET_V2))) <= set(sites)


@pytest.mark.parametrize(
    ("skeleton", "named"),
    [
        (mobile(resolution=100), "100 px .* 96 px"),
        (mobile(resolution=200), "200 px .* 192 px"),
        (mobile(resolution=36), "36 px .* 40 px"),
        (mobile(channels=30), "multiple of 8"),
        (Skeleton("mobile", 20, 32, 224, 10), "cells must be 22"),
    ],
)
def test_sizes_that_cannot_be_built(skeleton: Skeleton, named: str) -> None:
    with pytest.raises(UserError, match=named) as caught:
        plan_of(skeleton)
    assert caught.value.exit_code == 2


def layer(number: int, operation: object) -> Callable[[list[Any]], object]:
    return lambda layers: layers.__setitem__(number - 1, operation)


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        pytest.param(lambda layers: layers.pop(), r"layer 22 \(the first of stage 7\) is missing", id="missing layer"),
        pytest.param(lambda layers: layers.append("skip"), "layer 23 is too many", id="extra layer"),
        pytest.param(layer(2, "skip"), r"layer 2 \(the first of stage 2\) is 'skip'", id="skip first"),
        pytest.param(layer(22, "skip"), r"layer 22 \(the first of stage 7\) is 'skip'", id="skip last stage"),
        pytest.param(layer(9, "mb6_k9"), r"layer 9 \(of stage 3\) is 'mb6_k9'; .*mb6_k7", id="unknown kernel"),
        pytest.param(layer(1, "mb6_k3"), r"layer 1 .* one of mb1_k3", id="expansion of the first stage"),
        pytest.param(layer(3, 5), "layer 3 .* is 5", id="number"),
        pytest.param(layer(3, ["mb6_k3"]), "layer 3", id="list"),
    ],
)
def test_bad_layers(spoil: Callable[[list[Any]], object], named: str, tmp_path: Path) -> None:
    record = json.loads(json.dumps(MOBILENET_V2))
    spoil(record["layers"])
    path = tmp_path / "genotype.json"
    path.write_text(json.dumps(record))
    with pytest.raises(UserError, match=named) as caught:
        read_genotype(path)
    assert caught.value.exit_code == 2
    assert "genotype.json" in str(caught.value)


@pytest.mark.parametrize("layers", [None, "mb6_k3", 5, {}])
def test_layers_must_be_a_list(layers: object) -> None:
    with pytest.raises(UserError, match="layers"):
        genotype_from_record({"space": "mobile", "layers": layers})
    with pytest.raises(UserError, match="layers"):
        genotype_from_record({"space": "mobile"})


def test_where_a_layer_is_left_out_does_not_matter() -> None:
    skeleton = mobile(8, 32, 3)
    record = json.loads(json.dumps(MOBILENET_V2))
    record["layers"][1:5] = ["mb3_k3", "skip", "mb6_k5", "mb3_k7"]
    moved = json.loads(json.dumps(record))
    moved["layers"][1:5] = ["mb3_k3", "mb6_k5", "mb3_k7", "skip"]
    swapped = json.loads(json.dumps(record))
    swapped["layers"][1:5] = ["mb3_k3", "mb3_k7", "mb6_k5", "skip"]
    one, same, other = (genotype_from_record(r) for r in (record, moved, swapped))
    assert one != same and one.canonical() == same.canonical() == same
    assert other.canonical() != one.canonical()
    x, logits = torch.randn(2, 3, 32, 32), []
    for genotype in (one, same):
        torch.manual_seed(0)
        logits.append(Network(skeleton, genotype).eval()(x))
    assert torch.equal(*logits)


def test_round_trip() -> None:
    genotype: Genotype = genotype_from_record(MOBILENET_V2)
    assert genotype.record() == MOBILENET_V2
