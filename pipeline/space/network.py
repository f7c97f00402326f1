"""The networks that interpret a plan: the chain shared with the supernet, and the stacked network of one genotype."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from pipeline.errors import UserError
from pipeline.space import operations
from pipeline.space.cells import Cell, CellKind, Fixed, Plan
from pipeline.space.genotype import Genotype
from pipeline.space.layers import Normalization
from pipeline.space.modules import Residual
from pipeline.space.plan import plan_of
from pipeline.space.skeleton import Skeleton
from pipeline.space.spaces import space_named


class Auxiliary(nn.Module):
    """DARTS' auxiliary classifier, for training only; 2×2 whatever the resolution."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Conv2d(channels, 128, 1, bias=False),
            nn.BatchNorm2d(128),
            nn.ReLU(),
            nn.Conv2d(128, 768, 2, bias=False),
            nn.BatchNorm2d(768),
            nn.ReLU(),
            nn.Flatten(),
        )
        self.classifier = nn.Linear(768, classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.features(x))
        return logits


class Chain(nn.Module):
    """The parts of a plan in order; what stands in a cell's place is the caller's."""

    def __init__(
        self, skeleton: Skeleton, norm: Normalization, make_cell: Callable[[Cell, CellKind], nn.Module]
    ) -> None:
        super().__init__()
        self.skeleton = skeleton
        self.plan: Plan = plan_of(skeleton)
        self.space = space_named(skeleton.space)
        self.parts = nn.ModuleList(
            operations.build(part.site, norm)
            if isinstance(part, Fixed)
            else make_cell(part, self.space.kind(part.kind))
            for part in self.plan.chain
        )
        self.head = operations.build(self.plan.head, norm)

    def features(self, x: Tensor, run_cell: Callable[[nn.Module, Cell, list[Tensor]], Tensor]) -> list[Tensor]:
        """The outputs of all parts."""
        outputs: list[Tensor] = []
        for part, module in zip(self.plan.chain, self.parts, strict=True):
            if isinstance(part, Fixed):
                outputs.append(module(outputs[-1] if outputs else x))
            else:
                inputs = self.space.kind(part.kind).inputs
                last = outputs[-inputs:]
                outputs.append(run_cell(module, part, [last[0]] * (inputs - len(last)) + last))
        return outputs


class NetworkCell(nn.Module):
    """A cell with one operation on each kept edge."""

    def __init__(self, cell: Cell, kind: CellKind, genotype: Genotype, norm: Normalization) -> None:
        super().__init__()
        self.kind = kind
        self.preprocess = nn.ModuleList(operations.build(site, norm) for site in cell.preprocess)
        self.edges = nn.ModuleDict(
            {
                str(kept.edge): operations.build(cell.site(kind, kind.edges[kept.edge], kept.operation), norm)
                for kept in genotype.kept(kind)
            }
        )
        self.drop_paths = nn.ModuleDict()

    def forward(self, inputs: Sequence[Tensor]) -> Tensor:
        states = preprocess_inputs(self.preprocess, inputs)
        for node in range(self.kind.nodes):
            terms = [
                self._run_edge(str(index), states[self.kind.edges[index].source])
                for index in self.kind.edges_into(node)
                if str(index) in self.edges
            ]
            states.append(sum(terms[1:], start=terms[0]))
        return join_nodes(self.kind, states)

    def _run_edge(self, name: str, x: Tensor) -> Tensor:
        y: Tensor = self.edges[name](x)
        if name in self.drop_paths:
            y = self.drop_paths[name](y)
        return y


def preprocess_inputs(modules: nn.ModuleList, inputs: Sequence[Tensor]) -> list[Tensor]:
    """The inputs of a cell brought to its width and resolution, where the plan says so."""
    return [module(x) for module, x in zip(modules, inputs, strict=True)] if len(modules) else list(inputs)


def join_nodes(kind: CellKind, states: list[Tensor]) -> Tensor:
    """The output of a cell from its inputs and nodes."""
    return states[-1] if kind.output == "last" else torch.cat(states[kind.inputs :], dim=1)


class Network(Chain):
    """The stacked network of one genotype. `drop_path` and the auxiliary head exist for training only."""

    def __init__(
        self,
        skeleton: Skeleton,
        genotype: Genotype,
        affine: bool = True,
        pool_bn: bool = False,
        auxiliary: bool = False,
    ) -> None:
        if genotype.space != skeleton.space:
            raise UserError(f"the genotype is of the space {genotype.space!r}, the network of {skeleton.space!r}")
        norm = Normalization(affine, pool_bn)
        super().__init__(skeleton, norm, lambda cell, kind: NetworkCell(cell, kind, genotype, norm))
        self.genotype = genotype
        self.auxiliary = Auxiliary(self._auxiliary_channels(), skeleton.classes) if auxiliary else None

    def _auxiliary_channels(self) -> int:
        part = self.plan.chain[self.plan.auxiliary_after]
        if isinstance(part, Fixed):
            return part.site.channels_out
        output = part.output_site(self.space.kind(part.kind))
        return part.channels if output is None else output.channels_out

    def set_drop_path(self, rate: float) -> None:
        """Drop every path that is not an identity with probability `rate`, per image, while training.

        What has a shortcut of its own is dropped beside it. The only edge of a cell is never dropped: nothing would
        be left.
        """
        from timm.layers.drop import DropPath

        for module in self.modules():
            if isinstance(module, Residual):
                module.drop_path = DropPath(rate) if rate > 0 else nn.Identity()
            elif isinstance(module, NetworkCell) and len(module.kind.edges) > 1:
                for name, operation in module.edges.items():
                    if rate > 0 and not isinstance(operation, nn.Identity):
                        module.drop_paths[name] = DropPath(rate)
                    elif name in module.drop_paths:
                        del module.drop_paths[name]

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(x, _run_cell)[-1])
        return logits

    def forward_with_auxiliary(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Logits, and those of the auxiliary head where there is one."""
        outputs = self.features(x, _run_cell)
        side = None if self.auxiliary is None else self.auxiliary(outputs[self.plan.auxiliary_after])
        return self.head(outputs[-1]), side


def _run_cell(module: nn.Module, part: Cell, inputs: list[Tensor]) -> Tensor:
    output: Tensor = module(inputs)
    return output
