"""Guards: what the search looks like from outside at the end of an epoch, and when it has gone wrong."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from pipeline.bilevel.problem import preserved
from pipeline.data import Batch
from pipeline.search.objective import Constraint
from pipeline.space.cells import CellKind
from pipeline.space.genotype import Genotype
from pipeline.space.operations import is_parameter_free
from pipeline.space.score import argmax_genotype, edge_weights, operation_scores
from pipeline.space.supernet import Supernet

_COLLAPSED_SHARE = 0.95
# of an operation: 800 chose worse than chance on NAS-Bench-201 and 2,700 well; 1,100 ranked DARTS networks of one size
# the wrong way round (search-decisions.md)
FEW_STEPS = 2000


def describe_short_search(steps: int) -> str:
    """The doubt about a search whose operations take part in so few weight steps each; nothing if they are enough."""
    if steps >= FEW_STEPS:
        return ""
    return (
        f"a short search: each operation takes part in about {steps:,} weight steps, and what it finds may be no "
        "better than chance (800 were too few on NAS-Bench-201 and 2,700 enough)"
    )


@dataclass(frozen=True)
class ArchitectureReport:
    """The architecture's opinion: how strong, how dear, and what it would select.

    What it would select goes by the scores, which the budget penalty has no part in: α itself turns to operations that
    learn nothing whenever the budget is tight. How dear it is goes by α, and is no fault within the budget.
    """

    genotype: Genotype
    parameter_free_share: float
    """Share of the selected operations that learn nothing: skips, pools, none."""
    costliest_share: float
    """Share of the operations that α is for that are the costliest of their edge; 0 where it keeps to the limits."""
    margin_mean: float
    """Mean over edges of the largest weight minus the second largest."""
    margin_min: float
    entropy: float
    """Mean over edges of the weights' entropy, over that of even weights."""

    @property
    def collapse(self) -> str | None:
        """Which end the architecture has run to, if any."""
        if self.parameter_free_share >= _COLLAPSED_SHARE:
            return f"{self.parameter_free_share:.0%} of the selected operations learn nothing (skips, pools, none)"
        if self.costliest_share >= _COLLAPSED_SHARE:
            return f"{self.costliest_share:.0%} of the operations are the costliest of their edge, over the limit"
        return None

    def record(self) -> dict[str, Any]:
        return {**asdict(self), "genotype": self.genotype.record(), "collapse": self.collapse}


def report_architecture(
    constraint: Constraint, alphas: Sequence[Tensor], unpenalized: Sequence[Tensor]
) -> ArchitectureReport:
    """What the architecture parameters say now."""
    space, detached = constraint.space, [alpha.detach() for alpha in alphas]
    weights = edge_weights(detached, constraint.prices, constraint.scale)
    selected, meant = (argmax_genotype(space, operation_scores(space, group)) for group in (unpenalized, detached))
    margins = torch.cat([(w.topk(2).values @ w.new_tensor([1.0, -1.0])) for w in weights])
    entropies = torch.cat([torch.special.entr(w).sum(-1) / torch.tensor(float(w.shape[-1])).log() for w in weights])
    free = [is_parameter_free(kept.operation) for kind in space.kinds for kept in selected.kept(kind)]
    dear = [
        kept.operation == _costliest(constraint, kind, kept.edge) for kind in space.kinds for kept in meant.kept(kind)
    ]
    over = bool(constraint.overshoot(detached) > 0)
    return ArchitectureReport(
        selected,
        parameter_free_share=sum(free) / len(free),
        costliest_share=over * sum(dear) / len(dear),
        margin_mean=float(margins.mean()),
        margin_min=float(margins.min()),
        entropy=float(entropies.mean()),
    )


def _costliest(constraint: Constraint, kind: CellKind, edge: int) -> str | None:
    if not constraint.limits:
        return None
    return kind.operations[int(constraint.limits[0].costs.choices[kind.name][edge].argmax())]


@dataclass(frozen=True)
class Gap:
    """Validation figures of what was trained (the mixture, or the mean of networks), and of the selected network.

    All with the same weights.
    """

    soft_loss: float
    soft_accuracy: float
    selected_accuracy: float


@torch.no_grad()
def measure_gap(
    supernet: Supernet,
    weights: Sequence[Tensor],
    genotype: Genotype,
    images: Iterable[Batch],
    networks: Sequence[Genotype] = (),
) -> Gap:
    """With the statistics of the batch, which is how the supernet was trained; its own are left alone."""
    loss = soft = selected = count = 0.0
    with preserved(list(supernet.buffers())):
        for batch in images:
            views = [supernet.run(batch.images, network) for network in networks] or [supernet(batch.images, weights)]
            for logits in views:
                loss += float(nn.functional.cross_entropy(logits, batch.labels, reduction="sum")) / len(views)
                soft += float((logits.argmax(1) == batch.labels).sum()) / len(views)
            selected += float((supernet.run(batch.images, genotype).argmax(1) == batch.labels).sum())
            count += len(batch.labels)
    return Gap(loss / count, soft / count, selected / count)
