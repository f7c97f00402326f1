"""The supernet: every operation on every edge, weighted; and how a network takes its weights over.

Edges that leave one source see the same input, so what has no parameters runs once for all of them, and what has runs
as one call with a copy per edge: dense convolutions read the input once, others take it repeated, in groups of channels
(the numbers are those of running every edge on its own).
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from pipeline.space import operations
from pipeline.space.cells import Cell, CellKind
from pipeline.space.copies import run_copy
from pipeline.space.genotype import Genotype
from pipeline.space.layers import Normalization
from pipeline.space.nested import nest, state_of
from pipeline.space.network import Chain, Network, NetworkCell, join_nodes, preprocess_inputs
from pipeline.space.paths import Paths, restrict_weights
from pipeline.space.skeleton import Skeleton


class SourceEdges(nn.Module):
    """All operations on all edges that leave one source."""

    def __init__(self, cell: Cell, kind: CellKind, source: int, norm: Normalization) -> None:
        super().__init__()
        self.edges = kind.edges_from(source)
        self.shared, self.parallel = nn.ModuleDict(), nn.ModuleDict()
        self.columns = {operation: index for index, operation in enumerate(kind.operations)}
        for operation in kind.operations:
            site = cell.site(kind, kind.edges[self.edges[0]], operation)
            if operation == "none":
                continue  # adds nothing, whatever its weight
            if operations.params(site, norm):
                self.parallel[operation] = operations.build(site, norm, copies=len(self.edges))
            else:
                self.shared[operation] = operations.build(site, norm)
        copies = len(self.edges)
        self._nested = kind.nested
        if kind.nested:
            assert copies == 1, "nested operations lie side by side in none"
            nest(dict(self.parallel.items()))
        self.reading_once = {name for name, module in self.parallel.items() if _read_once(module, copies)}

    def forward(self, x: Tensor, weights: Tensor, path: Tensor | None) -> list[Tensor]:
        """Per edge, the sum over operations of weights[edge, operation] · operation(x); off the path, none is run."""
        rows, copies = weights[list(self.edges)], len(self.edges)
        totals: list[Tensor | None] = [None] * copies
        parallel, shared = self._on(path, self.parallel), self._on(path, self.shared)
        if parallel:
            side_by_side = x.repeat(1, copies, 1, 1) if self.reading_once < set(self.parallel) and copies > 1 else x
            total = sum_terms(
                [
                    _scale_copies(module(x if name in self.reading_once else side_by_side), rows[:, self.columns[name]])
                    for name, module in parallel.items()
                ]
            )
            totals = list(total.chunk(copies, dim=1))
        free = {name: module(x) for name, module in shared.items()}
        return [
            sum_terms(
                [*([] if total is None else [total]), *(rows[i, self.columns[name]] * y for name, y in free.items())]
            )
            for i, total in enumerate(totals)
        ]

    def _on(self, path: Tensor | None, modules: nn.ModuleDict) -> dict[str, nn.Module]:
        """The modules that some edge needs."""
        if path is None:
            return dict(modules.items())
        needed = path[list(self.edges)].any(0)
        return {name: module for name, module in modules.items() if needed[self.columns[name]]}

    def idle_parameters(self, path: Tensor) -> Iterator[nn.Parameter]:
        """Those of operations off the path."""
        running = self._on(path, self.parallel)
        if running and self._nested:
            return  # the widest holds the weights of all
        for name, module in self.parallel.items():
            if name not in running:
                yield from module.parameters()

    def run(self, edge: int, operation: str, x: Tensor) -> Tensor:
        """One operation on one edge, alone."""
        if operation in self.parallel:
            return run_copy(self.parallel[operation], x, self.edges.index(edge), len(self.edges))
        y: Tensor = self.shared[operation](x)
        return y

    def state_of(self, edge: int, operation: str) -> dict[str, Tensor]:
        """The parameters and statistics of one operation on one edge, as a module of its own holds them."""
        if operation not in self.parallel:
            return self.shared[operation].state_dict() if operation in self.shared else {}
        if self._nested:
            return state_of(self.parallel[operation])
        place, copies = self.edges.index(edge), len(self.edges)
        state = self.parallel[operation].state_dict()
        return {name: tensor.chunk(copies)[place] if tensor.ndim else tensor for name, tensor in state.items()}


def _read_once(module: nn.Module, copies: int) -> bool:
    """Let the first convolution of all copies read their common input instead of one copy each, if it is dense.

    The weights of a convolution in `copies` groups are those of one with all groups' outputs and one group's inputs.
    """
    if not isinstance(module, nn.Sequential) or not isinstance(module[0], nn.ReLU):
        return False
    first = module[1]
    if not isinstance(first, nn.Conv2d) or first.groups != copies:
        return False
    first.in_channels, first.groups = first.in_channels // copies, 1
    return True


def _scale_copies(y: Tensor, weights: Tensor) -> Tensor:
    """Each of the feature maps that lie side by side times its weight."""
    return y * weights.repeat_interleave(y.shape[1] // len(weights)).view(1, -1, 1, 1)


def sum_terms(terms: Sequence[Tensor]) -> Tensor:
    """t_0 + t_1 + …, in this order."""
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


class SuperCell(nn.Module):
    """A cell whose node j is the sum over its edges e and operations o of weights[e, o] · o(x_source)."""

    def __init__(self, cell: Cell, kind: CellKind, norm: Normalization) -> None:
        super().__init__()
        self.kind = kind
        self.preprocess = nn.ModuleList(operations.build(site, norm) for site in cell.preprocess)
        sources = range(kind.inputs + kind.nodes - 1)
        self.sources = nn.ModuleList(SourceEdges(cell, kind, source, norm) for source in sources)

    def forward(self, inputs: Sequence[Tensor], weights: Tensor, path: Tensor | None = None) -> Tensor:
        states = preprocess_inputs(self.preprocess, inputs)
        on_edge: dict[int, Tensor] = {}
        for source in range(self.kind.inputs + self.kind.nodes):
            if source >= self.kind.inputs:
                incoming = self.kind.edges_into(source - self.kind.inputs)
                states.append(sum_terms([on_edge.pop(edge) for edge in incoming]))
            if source < len(self.sources):
                leaving = self.sources[source]
                assert isinstance(leaving, SourceEdges)
                on_edge.update(zip(leaving.edges, leaving(states[source], weights, path), strict=True))
        return join_nodes(self.kind, states)

    def idle_parameters(self, path: Tensor) -> Iterator[nn.Parameter]:
        """Those of operations off the path."""
        for leaving in self.sources:
            assert isinstance(leaving, SourceEdges)
            yield from leaving.idle_parameters(path)

    def run(self, inputs: Sequence[Tensor], kept: dict[int, str]) -> Tensor:
        """The cell with one operation on each kept edge, weighted 1; a node that nothing reaches is 0."""
        states = preprocess_inputs(self.preprocess, inputs)
        for node in range(self.kind.nodes):
            terms = [
                self._run_edge(e, kept[e], states) for e in self.kind.edges_into(node) if kept.get(e, "none") != "none"
            ]
            states.append(sum_terms(terms) if terms else torch.zeros_like(states[-1]))
        return join_nodes(self.kind, states)

    def _run_edge(self, edge: int, operation: str, states: Sequence[Tensor]) -> Tensor:
        source = self.kind.edges[edge].source
        leaving = self.sources[source]
        assert isinstance(leaving, SourceEdges)
        return leaving.run(edge, operation, states[source])

    def state_of(self, edge: int, operation: str) -> dict[str, Tensor]:
        """See `SourceEdges.state_of`."""
        leaving = self.sources[self.kind.edges[edge].source]
        assert isinstance(leaving, SourceEdges)
        return leaving.state_of(edge, operation)


class Supernet(Chain):
    """All networks of a space at once.

    `forward(x, weights)` takes one [edges, operations] tensor per kind of cell; with `paths`, a mask of the same shape
    each, only the operations on them are mixed, and run (`pipeline.space.paths`).
    """

    def __init__(self, skeleton: Skeleton, affine: bool = False, pool_bn: bool = True) -> None:
        norm = Normalization(affine, pool_bn)
        super().__init__(skeleton, norm, lambda cell, kind: SuperCell(cell, kind, norm))

    def forward(self, x: Tensor, weights: Sequence[Tensor], paths: Paths | None = None) -> Tensor:
        names = [kind.name for kind in self.space.kinds]
        rows = dict(zip(names, weights if paths is None else restrict_weights(weights, paths), strict=True))
        masks = {} if paths is None else dict(zip(names, paths, strict=True))

        def run_cell(module: nn.Module, part: Cell, inputs: list[Tensor]) -> Tensor:
            output: Tensor = module(inputs, rows[part.kind], masks.get(part.kind))
            return output

        logits: Tensor = self.head(self.features(x, run_cell)[-1])
        return logits

    def parameters_on(self, paths: Paths | None) -> list[nn.Parameter]:
        """The parameters that the output depends on: all but those of operations off the paths."""
        if paths is None:
            return list(self.parameters())
        masks = {kind.name: mask for kind, mask in zip(self.space.kinds, paths, strict=True)}
        idle = {
            parameter
            for cell in self.parts
            if isinstance(cell, SuperCell)
            for parameter in cell.idle_parameters(masks[cell.kind.name])
        }
        return [parameter for parameter in self.parameters() if parameter not in idle]

    def run(self, x: Tensor, genotype: Genotype) -> Tensor:
        """One network of the space, with the weights it has here: the mixture at one-hot weights, and only its work."""
        kept = {kind.name: dict(genotype.kept(kind)) for kind in self.space.kinds}

        def run_cell(module: nn.Module, part: Cell, inputs: list[Tensor]) -> Tensor:
            assert isinstance(module, SuperCell)
            return module.run(inputs, kept[part.kind])

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
                ours.edges[str(edge)].load_state_dict(theirs.state_of(edge, operation))
        network.head.load_state_dict(supernet.head.state_dict())
