"""What a selection leaves: the chosen network, what it was chosen among, and its certificate or refusal."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from pipeline.artifacts.certificate import Certificate, Iteration, Refusal
from pipeline.artifacts.document import Percentiles
from pipeline.artifacts.network import ChosenNetwork, genotype_hash
from pipeline.artifacts.selection import ArgmaxFigures, CandidateFigures, Figures, Selection, SourceFigures
from pipeline.budget.targets import Demands
from pipeline.fingerprint import Fingerprint
from pipeline.latency.target import FIRM_NOISE_FLOOR
from pipeline.selection.budgets import Outcome
from pipeline.selection.candidate import Candidate
from pipeline.selection.standing import Standing

_SCHEMA = 2


class TableState(NamedTuple):
    """How far the latency table can be trusted here."""

    validated: bool
    differences: Sequence[str] = ()

    @property
    def trusted(self) -> bool:
        return self.validated and not self.differences

    def describe(self) -> str:
        if self.differences:
            return f"the latency table was measured elsewhere ({'; '.join(self.differences)})"
        return "the latency table is validated" if self.validated else "the latency table is not validated"


class Circumstances(NamedTuple):
    """What the figures depend on besides the network."""

    rule: str
    device: Fingerprint
    table: TableState
    alphas_sha256: str
    sentinel_ms: float | None = None
    evidence: Sequence[Standing] = ()


def describe_network(candidate: Candidate) -> ChosenNetwork:
    """genotype.json."""
    return ChosenNetwork(genotype=candidate.genotype, skeleton=candidate.target.skeleton)


def certify_outcome(outcome: Outcome, circumstances: Circumstances) -> Certificate:
    """The certificate of a network that fits."""
    chosen, demands = outcome.chosen, outcome.demands
    predicted, noise = chosen.predicted, chosen.timing.noise_at(demands.percentile)
    unsure = chosen.timing.is_predicted or noise > FIRM_NOISE_FLOOR
    return Certificate(
        **_asked(demands, circumstances),
        fits=True,
        predicted_ms=predicted.ms,
        predicted_interval_ms=(predicted.low_ms, predicted.high_ms),
        **chosen.timing.record_beside(demands.budget_ms, demands.percentile),
        provisional=unsure or not circumstances.table.trusted,
        genotype_sha256=genotype_hash(chosen.genotype),
        skeleton=chosen.target.skeleton,
        iterations=[_iteration(done) for done in outcome.tried],
    )


def refuse_budget(demands: Demands, tried: Sequence[Candidate], circumstances: Circumstances) -> Refusal:
    """What is left of a budget that no network was measured to keep."""
    return Refusal(**_asked(demands, circumstances), fits=False, iterations=[_iteration(done) for done in tried])


def _asked(demands: Demands, circumstances: Circumstances) -> dict[str, Any]:
    return {
        "budget_ms": demands.budget_ms,
        "percentile": demands.percentile,
        "device": circumstances.device,
        "sentinel_ms": circumstances.sentinel_ms,
        "table_validated": circumstances.table.validated,
        "table_differences": list(circumstances.table.differences),
    }


def _iteration(done: Candidate) -> Iteration:
    assert done.limit_ms is not None  # it was measured
    return Iteration(
        limit_ms=done.limit_ms,
        predicted_ms=done.predicted.ms,
        measured_ms=_measured(done),
        noise_floor=None if done.timing.is_predicted else done.timing.noise_floor,
        cells=done.target.skeleton.cells,
        channels=done.target.skeleton.channels,
        genotype_sha256=genotype_hash(done.genotype),
        fits=bool(done.fits),
    )


def describe_selection(
    outcome: Outcome, argmax: Candidate, options: Sequence[Candidate], circumstances: Circumstances
) -> Selection:
    """How it was chosen. `argmax` is the classic cell in the chosen skeleton, `options` the best of each size."""
    chosen, demands = outcome.chosen, outcome.demands
    limits = chosen.target.limits(demands)
    counts = {limit.name: limit.at_most for limit in limits[1:]}
    return Selection(
        rule=circumstances.rule,
        evidence=[SourceFigures(**standing._asdict()) for standing in circumstances.evidence],
        alphas_sha256=circumstances.alphas_sha256,
        skeleton=chosen.target.skeleton,
        limits={"percentile": demands.percentile, "budget_ms": demands.budget_ms, **counts},
        limit_predicted_ms=limits[0].at_most,
        chosen=Figures(**_figures(chosen)),
        gap=chosen.gap,
        solve_seconds=sum(done.seconds for done in outcome.tried),
        argmax=ArgmaxFigures(
            **_figures(argmax), within_limits=all(x.allows(x.costs.of(argmax.genotype)) for x in limits)
        ),
        candidates=[_candidate(candidate) for candidate in outcome.tried],
        sizes=[Figures(**_figures(option)) for option in options],
    )


def _figures(candidate: Candidate) -> dict[str, Any]:
    return {
        "cells": candidate.target.skeleton.cells,
        "channels": candidate.target.skeleton.channels,
        "score": candidate.score,
        "score_share": candidate.share,
        "predicted_ms": candidate.predicted.ms,
        "macs": candidate.macs,
        "params": candidate.params,
        "genotype": candidate.genotype,
        "judged": candidate.judged,
    }


def _candidate(candidate: Candidate) -> CandidateFigures:
    return CandidateFigures(**_figures(candidate), measured_ms=_measured(candidate), verdict=candidate.verdict)


def _measured(candidate: Candidate) -> Percentiles | None:
    return None if candidate.timing.is_predicted else Percentiles(**candidate.timing.record())
