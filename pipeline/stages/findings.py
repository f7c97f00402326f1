"""What a run's search has found, as selection takes it: alpha, judged networks, and the supernet's weights."""

from pathlib import Path
from typing import NamedTuple

from pipeline.artifacts.alphas import Alphas, SupernetWeights
from pipeline.artifacts.judged_networks import JudgedNetworks
from pipeline.budget.integer_programme import Scores
from pipeline.errors import UserError
from pipeline.search.guards import describe_short_search
from pipeline.space.skeleton import Skeleton
from pipeline.space.supernet import Supernet
from pipeline.stages.context import Context


class Start(NamedTuple):
    """Where the supernet lies whose weights short trainings begin with, and its layout."""

    weights: Path
    skeleton: Skeleton

    def build(self) -> Supernet:
        return SupernetWeights.read(self.weights).build(self.skeleton)


class Findings(NamedTuple):
    """What a search has found: alpha, the networks that it judged, if it kept them, and where its supernet lies."""

    alphas: Alphas
    judged: JudgedNetworks | None
    supernet: Start

    @property
    def is_short(self) -> bool:
        """Whether it was too short to be trusted; not known of one by an earlier version."""
        steps = None if self.judged is None else self.judged.steps_per_operation
        return steps is not None and bool(describe_short_search(steps))

    @property
    def start(self) -> Start | None:
        """What short trainings begin with: nothing of a short search, whose weights are hardly better than random."""
        return self.supernet if self.supernet.weights.is_file() and not self.is_short else None


def findings_of(context: Context) -> Findings:
    """Those of the run's own search; one of another space is refused."""
    found, wanted = context.read(Alphas), context.config.target.space
    if found.space.name != wanted:
        raise UserError(
            f"{context.run.alphas} is of the space {found.space.name!r}, but [target] space = {wanted!r}; "
            "run `pipeline search` again"
        )
    judged = context.read(JudgedNetworks) if context.run.judged.is_file() else None
    return Findings(found, judged, Start(context.run.supernet_weights, context.search_skeleton))


def alpha_scores(found: Alphas) -> Scores:
    """What the search says of every choice."""
    pairs = zip(found.space.kinds, found.scores(), strict=True)
    return {kind.name: score.double().numpy() for kind, score in pairs}
