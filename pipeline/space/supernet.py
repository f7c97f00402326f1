"""The supernet: every operation on every edge, weighted; and how a network takes its weights over."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pipeline.space import operations
from pipeline.space.cells import Cell, CellKind
from pipeline.space.layers import Normalization
from pipeline.space.network import Chain, Network, NetworkCell, join_nodes, preprocess_inputs
from pipeline.space.skeleton import Skeleton


class SuperCell(nn.Module):
    """A cell whose node j is the sum over its edges e and operations o of weights[e, o] · o(x_source)."""

    def __init__(self, cell: Cell, kind: CellKind, norm: Normalization) -> None:
        super().__init__()
        self.kind = kind
        self.preprocess = nn.ModuleList(operations.build(site, norm) for site in cell.preprocess)
        self.edges = nn.ModuleList(
            nn.ModuleDict({o: operations.build(cell.site(kind, edge, o), norm) for o in kind.operations})
            for edge in kind.edges
        )

    def forward(self, inputs: Sequence[Tensor], weights: Tensor) -> Tensor:
        states = preprocess_inputs(self.preprocess, inputs)
        for node in range(self.kind.nodes):
            terms = [
                self._run_edge(i, states[self.kind.edges[i].source], weights[i]) for i in self.kind.edges_into(node)
            ]
            states.append(sum(terms[1:], start=terms[0]))
        return join_nodes(self.kind, states)

    def _run_edge(self, index: int, x: Tensor, row: Tensor) -> Tensor:
        operation_modules = self.edges[index]
        assert isinstance(operation_modules, nn.ModuleDict)
        terms: list[Tensor] = [row[i] * module(x) for i, module in enumerate(operation_modules.values())]
        return sum(terms[1:], start=terms[0])


class Supernet(Chain):
    """All networks of a space at once. `forward(x, weights)` takes one [edges, operations] tensor per kind of cell."""

    def __init__(self, skeleton: Skeleton, affine: bool = False, pool_bn: bool = True) -> None:
        norm = Normalization(affine, pool_bn)
        super().__init__(skeleton, norm, lambda cell, kind: SuperCell(cell, kind, norm))

    def forward(self, x: Tensor, weights: Sequence[Tensor]) -> Tensor:
        by_kind = {kind.name: rows for kind, rows in zip(self.space.kinds, weights, strict=True)}

        def run_cell(module: nn.Module, part: Cell, inputs: list[Tensor]) -> Tensor:
            output: Tensor = module(inputs, by_kind[part.kind])
            return output

        logits: Tensor = self.head(self.features(x, run_cell)[-1])
        return logits


def inherit_weights(network: Network, supernet: Supernet) -> None:
    """Copy into `network` the weights and running statistics that it shares with `supernet`."""
    kept = {kind.name: dict(network.genotype.kept(kind)) for kind in network.space.kinds}
    with torch.no_grad():
        for theirs, ours in zip(supernet.parts, network.parts, strict=True):
            if not isinstance(ours, NetworkCell):
                ours.load_state_dict(theirs.state_dict())
                continue
            assert isinstance(theirs, SuperCell)
            ours.preprocess.load_state_dict(theirs.preprocess.state_dict())
            for edge, operation in kept[ours.kind.name].items():
                shared = theirs.edges[edge]
                assert isinstance(shared, nn.ModuleDict)
                ours.edges[str(edge)].load_state_dict(shared[operation].state_dict())
        network.head.load_state_dict(supernet.head.state_dict())
