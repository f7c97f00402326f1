"""What a selection leaves: the chosen network, what it was chosen among, and its certificate or refusal."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from pipeline.artifacts.certificate import Certificate, Iteration, Refusal
from pipeline.artifacts.document import Percentiles
from pipeline.artifacts.network import ChosenNetwork, genotype_hash
from pipeline.artifacts.selection import ArgmaxFigures, CandidateFigures, Figures, Selection
from pipeline.budget.targets import Demands
from pipeline.fingerprint import Fingerprint
from pipeline.latency.measured import FIRM_NOISE_FLOOR
from pipeline.selection.candidate import Pick
from pipeline.selection.certification import Round
from pipeline.selection.outcome import Candidate, Outcome


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
    rescoring: str
    device: Fingerprint
    table: TableState
    alphas_sha256: str
    sentinel_ms: float | None = None


def describe_network(pick: Pick) -> ChosenNetwork:
    """genotype.json."""
    return ChosenNetwork(genotype=pick.genotype, skeleton=pick.target.skeleton)


def certify_outcome(outcome: Outcome, circumstances: Circumstances) -> Certificate:
    """The certificate of a network that fits."""
    chosen = outcome.chosen
    predicted, measured = chosen.pick.predicted, chosen.measured
    return Certificate(
        **_asked(outcome.demands, circumstances),
        fits=True,
        predicted_ms=predicted.ms,
        predicted_interval_ms=(predicted.low_ms, predicted.high_ms),
        measured_ms=Percentiles(**measured.record()),
        noise_floor=measured.noise_floor,
        provisional=not circumstances.table.trusted or measured.noise_floor > FIRM_NOISE_FLOOR,
        genotype_sha256=genotype_hash(chosen.pick.genotype),
        skeleton=chosen.pick.target.skeleton,
        iterations=[_iteration(done) for done in outcome.rounds],
    )


def refuse_budget(demands: Demands, rounds: Sequence[Round], circumstances: Circumstances) -> Refusal:
    """What is left of a budget that no network was measured to keep."""
    return Refusal(**_asked(demands, circumstances), fits=False, iterations=[_iteration(done) for done in rounds])


def _asked(demands: Demands, circumstances: Circumstances) -> dict[str, Any]:
    return {
        "budget_ms": demands.budget_ms,
        "percentile": demands.percentile,
        "device": circumstances.device,
        "sentinel_ms": circumstances.sentinel_ms,
        "table_validated": circumstances.table.validated,
        "table_differences": list(circumstances.table.differences),
    }


def _iteration(done: Round) -> Iteration:
    return Iteration(
        limit_ms=done.limit_ms,
        predicted_ms=done.predicted_ms,
        measured_ms=Percentiles(**done.measured.record()),
        noise_floor=done.measured.noise_floor,
        cells=done.pick.target.skeleton.cells,
        channels=done.pick.target.skeleton.channels,
        genotype_sha256=genotype_hash(done.pick.genotype),
        fits=done.fits,
    )


def describe_selection(
    outcome: Outcome, argmax: Pick, options: Sequence[Pick], circumstances: Circumstances
) -> Selection:
    """How it was chosen. `argmax` is the classic cell in the chosen skeleton, `options` the best of each size."""
    chosen, demands = outcome.chosen.pick, outcome.demands
    limits = chosen.target.limits(demands)
    counts = {limit.name: limit.at_most for limit in limits[1:]}
    return Selection(
        rule=circumstances.rule,
        rescoring=circumstances.rescoring,
        alphas_sha256=circumstances.alphas_sha256,
        skeleton=chosen.target.skeleton,
        limits={"percentile": demands.percentile, "budget_ms": demands.budget_ms, **counts},
        limit_predicted_ms=limits[0].at_most,
        chosen=Figures(**_figures(chosen)),
        gap=chosen.gap,
        solve_seconds=sum(done.pick.seconds for done in outcome.rounds),
        argmax=ArgmaxFigures(
            **_figures(argmax), within_limits=all(x.allows(x.costs.of(argmax.genotype)) for x in limits)
        ),
        candidates=[_candidate(candidate) for candidate in outcome.candidates],
        sizes=[Figures(**_figures(option)) for option in options],
    )


def _figures(pick: Pick) -> dict[str, Any]:
    return {
        "cells": pick.target.skeleton.cells,
        "channels": pick.target.skeleton.channels,
        "score": pick.score,
        "score_share": pick.share,
        "predicted_ms": pick.predicted.ms,
        "macs": pick.macs,
        "params": pick.params,
        "genotype": pick.genotype,
    }


def _candidate(candidate: Candidate) -> CandidateFigures:
    record = _figures(candidate.pick)
    record |= {"measured_ms": candidate.measured and candidate.measured.record(), "fate": candidate.fate}
    if candidate.judgement is not None:
        loss, _, steps = candidate.judgement
        record |= {"validation_loss": loss if math.isfinite(loss) else None, "trained_steps": steps}
    return CandidateFigures(**record)
