"""selection.json and certificate.json: what was chosen among what, and what was measured."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from pipeline.budget.targets import Demands
from pipeline.latency.target import FIRM_NOISE_FLOOR
from pipeline.selection.budgets import Outcome
from pipeline.selection.candidate import Candidate
from pipeline.selection.evidence import Standing
from pipeline.space.genotype import Genotype

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
    device: dict[str, Any]
    table: TableState
    alphas_sha256: str
    sentinel_ms: float | None = None
    evidence: Sequence[Standing] = ()


def genotype_hash(genotype: Genotype) -> str:
    """sha256 of the genotype with its inputs in order: the same for the same network."""
    text = json.dumps(genotype.canonical().record(), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def genotype_record(candidate: Candidate) -> dict[str, Any]:
    """genotype.json: the genotype as the literature writes it, and the skeleton around it."""
    return {**candidate.genotype.record(), "skeleton": asdict(candidate.target.skeleton)}


def certificate_record(outcome: Outcome, circumstances: Circumstances) -> dict[str, Any]:
    """The certificate of a network that fits."""
    chosen, demands = outcome.chosen, outcome.demands
    predicted, noise = chosen.predicted, chosen.timing.noise_at(demands.percentile)
    return {
        **_certificate_head(demands, circumstances),
        "fits": True,
        "predicted_ms": predicted.ms,
        "predicted_interval_ms": [predicted.low_ms, predicted.high_ms],
        **chosen.timing.record_beside(demands.budget_ms, demands.percentile),
        "provisional": not circumstances.table.trusted or noise > FIRM_NOISE_FLOOR,
        "genotype_sha256": genotype_hash(chosen.genotype),
        "skeleton": asdict(chosen.target.skeleton),
        "iterations": [_iteration(done) for done in outcome.tried],
    }


def refusal_record(demands: Demands, tried: Sequence[Candidate], circumstances: Circumstances) -> dict[str, Any]:
    """What is left of a budget that no network was measured to keep."""
    return {
        **_certificate_head(demands, circumstances),
        "fits": False,
        "iterations": [_iteration(done) for done in tried],
    }


def _certificate_head(demands: Demands, circumstances: Circumstances) -> dict[str, Any]:
    return {
        "schema": _SCHEMA,
        "budget_ms": demands.budget_ms,
        "percentile": demands.percentile,
        "device": circumstances.device,
        "sentinel_ms": circumstances.sentinel_ms,
        "table_validated": circumstances.table.validated,
        "table_differences": list(circumstances.table.differences),
    }


def _iteration(done: Candidate) -> dict[str, Any]:
    return {
        "limit_ms": done.limit_ms,
        "predicted_ms": done.predicted.ms,
        "measured_ms": done.timing.record(),
        "noise_floor": done.timing.noise_floor,
        "cells": done.target.skeleton.cells,
        "channels": done.target.skeleton.channels,
        "genotype_sha256": genotype_hash(done.genotype),
        "fits": done.fits,
    }


def selection_record(
    outcome: Outcome, argmax: Candidate, options: Sequence[Candidate], circumstances: Circumstances
) -> dict[str, Any]:
    """How it was chosen. `argmax` is the classic cell in the chosen skeleton, `options` the best of each size."""
    chosen, demands = outcome.chosen, outcome.demands
    limits = chosen.target.limits(demands)
    return {
        "schema": _SCHEMA,
        "rule": circumstances.rule,
        "evidence": [standing._asdict() for standing in circumstances.evidence],
        "alphas_sha256": circumstances.alphas_sha256,
        "skeleton": asdict(chosen.target.skeleton),
        "limits": {"percentile": demands.percentile, "budget_ms": demands.budget_ms}
        | {limit.name: limit.at_most for limit in limits[1:]},
        "limit_predicted_ms": limits[0].at_most,
        "chosen": _figures(chosen),
        "gap": chosen.gap,
        "solve_seconds": sum(done.seconds for done in outcome.tried),
        "argmax": {**_figures(argmax), "within_limits": all(x.allows(x.costs.of(argmax.genotype)) for x in limits)},
        "candidates": [_candidate(candidate) for candidate in outcome.tried],
        "sizes": [_figures(option) for option in options],
    }


def _figures(candidate: Candidate) -> dict[str, Any]:
    return {
        "cells": candidate.target.skeleton.cells,
        "channels": candidate.target.skeleton.channels,
        "score": candidate.score,
        "score_share": candidate.share,
        "predicted_ms": candidate.predicted.ms,
        "macs": candidate.macs,
        "params": candidate.params,
        "genotype": candidate.genotype.record(),
    }


def _candidate(candidate: Candidate) -> dict[str, Any]:
    return {**_figures(candidate), "measured_ms": candidate.timing.record(), "verdict": candidate.verdict}
