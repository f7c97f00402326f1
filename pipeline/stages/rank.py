"""rank: which of several genotypes is best on this run's data, with the evidence for it."""

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pipeline.console import show
from pipeline.errors import UserError
from pipeline.report.selection import show_evidence
from pipeline.selection.evidence import SIZE_SLOPE
from pipeline.selection.pool import Pool
from pipeline.selection.short_training import trial_skeleton
from pipeline.selection.sources import Sources
from pipeline.space.cells import Space
from pipeline.space.choices import choices_of, hears_input
from pipeline.space.genotype import Genotype
from pipeline.space.genotype_file import parse_genotype_file
from pipeline.space.spaces import space_named
from pipeline.stages.context import Context
from pipeline.stages.findings import Findings, findings_of
from pipeline.stages.free_search import search_freely
from pipeline.stages.judgement import judge, make_sources
from pipeline.stages.threads import worthwhile_threads
from pipeline.whole_files import read_given

_MAX_FILE_MB = 50
_FEWEST = 2


class Line(NamedTuple):
    """A genotype and the line of the file it stands on."""

    number: int
    genotype: Genotype


def rank(context: Context, path: Path) -> dict[str, Any]:
    """`pipeline rank --genotypes FILE`: every genotype with its score, its figures by source, and the weights used."""
    lines = read_genotypes(path, context.config.target.space)
    pool = _pool_of(lines, space_named(context.config.target.space), path)
    with context.run.locked():
        found = _findings(context)
        sources = make_sources(context, found)
        digest = hashlib.sha256(json.dumps([one.genotype.record() for one in lines]).encode()).hexdigest()[:12]
        ledger = context.run.root / "rank" / f"{digest}.jsonl"
        evidence = judge(context, pool, sources, ledger, None if found is None else found.start).proven()
    standings = evidence.standings()
    if standings:
        show(show_evidence(standings))
    weights = dict(zip(evidence.names, evidence.weights.tolist(), strict=True))
    weights["ln macs"] = SIZE_SLOPE  # larger is better, whatever short trainings say
    return _record(lines, sources, evidence.predict(sources.look([line.genotype for line in lines])), weights)


def _pool_of(lines: list[Line], space: Space, path: Path) -> Pool:
    """What is worth a training: a network that ignores its input comes last without one."""
    networks = [line.genotype for line in lines if hears_input(space, choices_of(space, line.genotype))]
    if not networks:
        raise UserError(f"none of the networks in {path} hears its input: no operation leads from it to the output")
    return Pool(space, tuple(networks))


def read_genotypes(path: Path, space: str) -> list[Line]:
    """The genotypes of a JSON-lines file, blank lines left out; anything else is refused with its line."""
    content = read_given(path, _MAX_FILE_MB).decode("utf-8", errors="replace")
    lines = []
    for number, text in enumerate(content.splitlines(), start=1):
        if text.strip():
            lines.append(Line(number, _parse(text, f"{path}, line {number}", space)))
    if len(lines) < _FEWEST:
        raise UserError(f"{path} holds {len(lines)} genotypes; there is something to rank from {_FEWEST} on")
    return lines


def _parse(text: str, origin: str, space: str) -> Genotype:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        raise UserError(f"{origin} is not JSON; every line is a genotype like {{'space': '{space}', …}}") from None
    genotype = parse_genotype_file(record, origin).genotype
    if genotype.space != space:
        raise UserError(f"{origin} is of the space {genotype.space!r}, but [target] space = {space!r}")
    return genotype


def _findings(context: Context) -> Findings | None:
    """Of the run's search, or of one without a budget."""
    if context.run.alphas.is_file():
        return findings_of(context)
    if context.config.discretize.rank_minutes:
        with worthwhile_threads(context, trial_skeleton(context.search_skeleton)):
            return search_freely(context)
    return None


def _record(lines: list[Line], sources: Sources, scores: Any, weights: dict[str, float]) -> dict[str, Any]:
    rows = []
    for line, score in zip(lines, scores, strict=True):
        figures = sources.figures(line.genotype)
        known = {n: f if np.isfinite(f) else None for n, f in zip(sources.names, figures, strict=True)}
        rows.append({"line": line.number, "score": float(score), "sources": known})
    return {"genotypes": rows, "weights": weights}
