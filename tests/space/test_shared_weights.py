"""What a network takes over from a supernet of its own or another size, and from a network of its kind."""

import pytest
import torch

from pipeline.space.genotype import Genotype
from pipeline.space.network import Network, NetworkCell
from pipeline.space.shared_weights import take_from_network, take_from_supernet
from pipeline.space.skeleton import Skeleton
from pipeline.space.supernet import SuperCell, Supernet
from pipeline.training.step import seed_all


def network_of(genotype: Genotype, cells: int = 3, channels: int = 4, classes: int = 10, seed: int = 0) -> Network:
    seed_all(seed)
    return Network(Skeleton("darts", cells, channels, 8, classes, 1), genotype)


def supernet_of(cells: int = 3, channels: int = 4) -> Supernet:
    seed_all(7)
    return Supernet(Skeleton("darts", cells, channels, 8, 10, 1))


def test_a_supernet_of_the_same_size_gives_all_but_what_it_has_not(darts_v2: Genotype) -> None:
    """Its normalization has neither scale nor shift; every other weight is that of the same edge and operation."""
    network, supernet = network_of(darts_v2), supernet_of()
    shared = take_from_supernet(network, supernet)
    affine = sum(
        parameter.numel()
        for module in network.modules()
        if isinstance(module, torch.nn.BatchNorm2d)
        for parameter in module.parameters()
    )
    assert shared.taken == shared.total - affine > 0
    for ours, theirs in zip(network.parts, supernet.parts, strict=True):
        if not isinstance(ours, NetworkCell):
            continue
        assert isinstance(theirs, SuperCell)
        for kept in darts_v2.kept(ours.kind):
            state = ours.edges[str(kept.edge)].state_dict()
            for name, value in theirs.state_of(kept.edge, kept.operation).items():
                assert name not in state or torch.equal(state[name], value)
    assert torch.equal(network.head.state_dict()["2.weight"], supernet.head.state_dict()["2.weight"])


def test_the_network_computes_what_the_supernet_does_on_its_path(darts_v2: Genotype) -> None:
    """An independent oracle: the supernet runs one network by itself, with pooling normalized, which a DARTS cell of
    separable convolutions alone does not need."""
    operations = [["sep_conv_3x3", source] for node in range(4) for source in range(2)]
    from pipeline.space.genotype import genotype_from_record

    genotype = genotype_from_record({"space": "darts", "normal": operations, "reduce": operations})
    network, supernet = network_of(genotype).eval(), supernet_of().eval()
    image = torch.rand(2, 1, 8, 8)
    with torch.no_grad():
        before = network(image)
        take_from_supernet(network, supernet)
        assert torch.allclose(network(image), supernet.run(image, genotype), atol=1e-5)
        assert not torch.allclose(network(image), before, atol=1e-3)


@pytest.mark.parametrize(("cells", "theirs"), [(5, 8), (8, 5)])
def test_another_number_of_cells_shares_what_has_the_same_shape(darts_v2: Genotype, cells: int, theirs: int) -> None:
    """Every value of the network is now its own random one, or stands in the supernet; most do."""
    network, supernet = network_of(darts_v2, cells), supernet_of(theirs)
    random = {name: value.clone() for name, value in network.named_parameters()}
    shared = take_from_supernet(network, supernet)
    changed = sum(value.numel() for name, value in network.named_parameters() if not torch.equal(value, random[name]))
    assert shared.taken == changed and 0.5 < shared.share < 1


def test_a_network_of_its_kind_gives_all_but_a_head_for_other_classes(darts_v2: Genotype) -> None:
    ours, theirs = network_of(darts_v2, classes=7), network_of(darts_v2, seed=1)
    before = ours.head.state_dict()["2.weight"].clone()
    shared = take_from_network(ours, theirs)
    head = sum(parameter.numel() for parameter in ours.head.parameters())
    assert shared.taken == shared.total - head
    assert torch.equal(ours.head.state_dict()["2.weight"], before)
    for name, value in ours.parts.state_dict().items():
        assert torch.equal(value, theirs.parts.state_dict()[name]), name
