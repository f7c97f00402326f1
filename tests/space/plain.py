"""The supernet as a textbook writes it: every operation on every edge on its own."""

from collections.abc import Sequence

from torch import Tensor, nn

from pipeline.space import operations
from pipeline.space.cells import Cell, CellKind
from pipeline.space.layers import Normalization
from pipeline.space.network import Chain, join_nodes, preprocess_inputs
from pipeline.space.supernet import SuperCell, Supernet


class PlainCell(nn.Module):
    def __init__(self, cell: Cell, kind: CellKind, norm: Normalization) -> None:
        super().__init__()
        self.kind = kind
        self.preprocess = nn.ModuleList(operations.build(site, norm) for site in cell.preprocess)
        self.edges = nn.ModuleList(
            nn.ModuleDict({o: operations.build(cell.site(kind, edge, o), norm) for o in kind.operations})
            for edge in kind.edges
        )

    def forward(self, inputs: Sequence[Tensor], weights: Tensor, path: Tensor | None = None) -> Tensor:
        states = preprocess_inputs(self.preprocess, inputs)
        for node in range(self.kind.nodes):
            total: Tensor | int = 0
            for edge in self.kind.edges_into(node):
                x = states[self.kind.edges[edge].source]
                for column, operation in enumerate(self.kind.operations):
                    total = total + weights[edge, column] * self.edges[edge][operation](x)  # type: ignore[index]
            assert isinstance(total, Tensor)
            states.append(total)
        return join_nodes(self.kind, states)


class PlainSupernet(Supernet):
    """With the weights of a supernet."""

    def __init__(self, supernet: Supernet, affine: bool = False, pool_bn: bool = True) -> None:
        norm = Normalization(affine, pool_bn)
        Chain.__init__(self, supernet.skeleton, norm, lambda cell, kind: PlainCell(cell, kind, norm))
        for ours, theirs in zip(self.parts, supernet.parts, strict=True):
            if not isinstance(ours, PlainCell):
                ours.load_state_dict(theirs.state_dict())
                continue
            assert isinstance(theirs, SuperCell)
            ours.preprocess.load_state_dict(theirs.preprocess.state_dict())
            for edge, modules in enumerate(ours.edges):
                assert isinstance(modules, nn.ModuleDict)
                for operation, module in modules.items():
                    module.load_state_dict(theirs.state_of(edge, operation))
        self.head.load_state_dict(supernet.head.state_dict())
