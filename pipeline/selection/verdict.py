"""What follows from the evidence: scores of single choices, and an evolution by scores of whole networks."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from pipeline.budget.integer_programme import Scores
from pipeline.console import say
from pipeline.selection.evidence import Evidence
from pipeline.selection.evolution import Evolution
from pipeline.selection.pool import Pool
from pipeline.selection.sources import Sources
from pipeline.selection.standing import Standing
from pipeline.selection.structure import additive_scores
from pipeline.space.choices import Choices, genotype_of


class Verdict(NamedTuple):
    """What the evidence says: of every choice, of whole networks, and of the sources it was drawn from."""

    scores: Scores
    evolution: Evolution | None
    standings: Sequence[Standing]


class Exploration(NamedTuple):
    """How many whole networks an evolution evaluates, from which seed, and who watches."""

    evaluations: int
    seed: int
    watched: Callable[[Iterator[Choices], int], Iterator[Choices]] = lambda evaluated, at_most: evaluated


def describe_doubt(together: Standing) -> str:
    """What to think of a choice by evidence that chance may explain; nothing where there is no doubt."""
    if together.low > 0:
        return ""
    found = f"rank networks left out with τ {together.tau:+.2f} (95 % {together.low:+.2f} … {together.high:+.2f})"
    return f"all sources together {found}, which chance may explain: none earns a weight, and what is trusted decides"


def conclude(evidence: Evidence, sources: Sources, pool: Pool, exploration: Exploration) -> Verdict:
    """The verdict; where chance may explain what the short trainings say, a sentence says so."""
    proven = evidence.proven()
    standings = proven.standings()
    if evidence.doubted:
        say(
            f"what the search found ({', '.join(evidence.doubted)}) does not agree with zero-cost proxies, or with "
            "short trainings, on networks of one size; it is not trusted"
        )
    doubt = describe_doubt(standings[-1]) if standings else ""
    if doubt:
        say(doubt)
    heard = sources.without(proven.idle)

    def score(choices: Choices) -> float:
        return float(proven.predict(heard.look([genotype_of(pool.space, choices)]))[0])

    evaluations, seed, watched = exploration
    return Verdict(
        additive_scores(pool.space, pool.networks, proven.predict(heard.look(pool.networks))),
        Evolution(pool.space, score, evaluations, seed, watched) if evaluations else None,
        standings,
    )
