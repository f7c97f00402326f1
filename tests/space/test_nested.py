"""Operations as parts of the widest one: which parts, one set of weights, and a network that takes its own over."""

import copy

import torch
from torch import nn

from pipeline.space.genotype import Genotype, genotype_from_record
from pipeline.space.network import Network
from pipeline.space.skeleton import Skeleton
from pipeline.space.spaces import space_named
from pipeline.space.supernet import SuperCell, Supernet, inherit_weights

SKELETON = Skeleton("mobile", cells=22, channels=8, resolution=16, classes=3)
MOBILE = space_named("mobile")


def network_of(*layers: str) -> Genotype:
    """These operations in turn on all layers but the first; what may not be left out is mb3_k3 instead."""
    chosen = ["mb1_k3", *(layers[place % len(layers)] for place in range(21))]
    fitting = [one if one in kind.choosable else "mb3_k3" for one, kind in zip(chosen, MOBILE.kinds, strict=True)]
    return genotype_from_record({"space": "mobile", "layers": fitting})


def states(supernet: Supernet, layer: int, *names: str) -> list[dict[str, torch.Tensor]]:
    cell = supernet.parts[layer]
    assert isinstance(cell, SuperCell)
    return [cell.state_of(0, name) for name in names]


def weights(state: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    return [value for name, value in state.items() if name.endswith("weight")]


def test_an_operation_is_the_middle_of_the_kernel_and_the_first_channels_of_the_widest() -> None:
    supernet = Supernet(SKELETON)
    for layer in (2, 3):  # with a stride or a change of width, and with a shortcut
        small, large, plain = states(supernet, layer, "mb3_k3_se", "mb6_k7_se", "mb6_k5")
        for part, whole in zip(weights(small), weights(large), strict=True):
            wide, deep, kernel, _ = part.shape
            edge = (whole.shape[-1] - kernel) // 2
            torch.testing.assert_close(part, whole[:wide, :deep, edge : edge + kernel, edge : edge + kernel])
        widen, filters, _, _, narrow = weights(large)
        for part, whole in zip(weights(plain), (widen, filters[:, :, 1:6, 1:6], narrow), strict=True):
            torch.testing.assert_close(part, whole)
        biases = [[value for name, value in state.items() if name.endswith("bias")] for state in (small, large)]
        for part, whole in zip(*biases, strict=True):
            torch.testing.assert_close(part, whole[: len(part)])


def test_the_supernet_has_the_weights_of_its_widest_network_and_names_them_once() -> None:
    supernet = Supernet(SKELETON)
    record = {"space": "mobile", "layers": ["mb1_k7_se"] + 21 * ["mb6_k7_se"]}
    widest = Network(SKELETON, genotype_from_record(record), affine=False, pool_bn=True)
    counts = [sum(weight.numel() for weight in net.parameters()) for net in (supernet, widest)]
    assert counts[0] == counts[1]
    assert len(supernet.state_dict()) == len(set(supernet.state_dict()))
    again = Supernet(SKELETON)
    again.load_state_dict(supernet.state_dict())
    x = torch.randn(2, 3, 16, 16)
    network = network_of("mb3_k5", "skip", "mb6_k3_se")
    torch.testing.assert_close(again.run(x, network), supernet.run(x, network))


def test_a_step_of_one_network_teaches_the_others() -> None:
    supernet = Supernet(SKELETON)
    before = [value.clone() for value in weights(states(supernet, 3, "mb3_k3")[0])]
    optimizer = torch.optim.SGD(supernet.parameters(), 0.1)
    logits = supernet.run(torch.randn(4, 3, 16, 16), network_of("mb6_k7"))
    nn.functional.cross_entropy(logits, torch.tensor([0, 1, 2, 0])).backward()
    optimizer.step()
    after = weights(states(supernet, 3, "mb3_k3")[0])
    assert not any(torch.equal(one, other) for one, other in zip(before, after, strict=True))


def test_a_copy_shares_among_itself_and_not_with_the_original() -> None:
    supernet = Supernet(SKELETON)
    other = copy.deepcopy(supernet).double()
    with torch.no_grad():
        for weight in other.parameters():
            weight.zero_()
    assert all(not value.any() for value in weights(states(other, 3, "mb3_k3")[0]))
    assert all(value.any() for value in weights(states(supernet, 3, "mb3_k3")[0]))


def test_a_network_takes_its_parts_over() -> None:
    torch.manual_seed(0)
    supernet, genotype = Supernet(SKELETON).double(), network_of("mb3_k5_se", "mb6_k3", "skip", "mb3_k7")
    network = Network(SKELETON, genotype, affine=False, pool_bn=True).double()
    inherit_weights(network, supernet)
    x = torch.randn(2, 3, 16, 16, dtype=torch.float64)
    torch.testing.assert_close(network(x), supernet.run(x, genotype), rtol=0, atol=1e-10)
    with torch.no_grad():
        next(iter(network.parts[3].parameters())).zero_()
    assert not torch.allclose(network(x), supernet.run(x, genotype)), "its weights are its own"
