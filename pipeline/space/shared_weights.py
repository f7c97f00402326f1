"""Weights that a network takes over from another where shapes agree: a supernet of another size, or its own kind."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from pipeline.space.network import Network, NetworkCell
from pipeline.space.supernet import SuperCell, Supernet

State = Mapping[str, Tensor]
_AUXILIARY = "auxiliary."


class Shared(NamedTuple):
    """Weights that were taken over, of how many the network is deployed with."""

    taken: int
    total: int

    @property
    def share(self) -> float:
        return self.taken / self.total


def take_from_network(network: Network, other: Network) -> Shared:
    """What a network of the same genotype has under the same name in the same shape, running statistics included."""
    taken = _copy(network, other.state_dict())
    return Shared(taken, _count(network))


def take_from_supernet(network: Network, supernet: Supernet) -> Shared:
    """Every part of the network takes over the part of the supernet that shares most with it.

    Among equals it is the one at the same relative depth, so that networks of any number of cells start from all of it.
    """
    taken = 0
    for place, part in enumerate(network.parts):
        states = [_state_for(part, network, theirs) for theirs in supernet.parts]
        depth = place / max(len(network.parts) - 1, 1)
        best = max(
            range(len(states)),
            key=lambda at: (_agreeing(part, states[at]), -abs(at / max(len(states) - 1, 1) - depth)),
        )
        taken += _copy(part, states[best])
    return Shared(taken + _copy(network.head, supernet.head.state_dict()), _count(network))


def _state_for(part: nn.Module, network: Network, theirs: nn.Module) -> State:
    """The state of a part of a supernet under the names of a part of the network; nothing if their kinds differ."""
    if not isinstance(part, NetworkCell):
        return {} if isinstance(theirs, SuperCell) else theirs.state_dict()
    if not isinstance(theirs, SuperCell) or theirs.kind.name != part.kind.name:
        return {}
    state = {f"preprocess.{name}": value for name, value in theirs.preprocess.state_dict().items()}
    for kept in network.genotype.kept(part.kind):
        for name, value in theirs.state_of(kept.edge, kept.operation).items():
            state[f"edges.{kept.edge}.{name}"] = value
    return state


def _matches(module: nn.Module, state: State) -> Sequence[str]:
    own = module.state_dict()
    return [name for name, value in state.items() if name in own and own[name].shape == value.shape]


def _agreeing(module: nn.Module, state: State) -> int:
    return sum(state[name].numel() for name in _matches(module, state))


def _copy(module: nn.Module, state: State) -> int:
    """Copy what agrees; how many parameters did."""
    names, own = _matches(module, state), module.state_dict()
    parameters = dict(module.named_parameters())
    with torch.no_grad():
        for name in names:
            own[name].copy_(state[name])
    return sum(parameters[name].numel() for name in names if name in parameters)


def _count(network: Network) -> int:
    """The parameters that are deployed."""
    return sum(value.numel() for name, value in network.named_parameters() if not name.startswith(_AUXILIARY))
