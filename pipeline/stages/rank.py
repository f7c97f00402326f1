"""rank: which of several genotypes is best on this run's data, with the evidence for it."""

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pipeline.artifacts.alphas import Alphas
from pipeline.budget.integer_programme import Scores
from pipeline.console import say, show
from pipeline.errors import PromiseBroken, UserError
from pipeline.report.selection import show_evidence
from pipeline.rundir import read_given
from pipeline.selection.pool import Pool
from pipeline.selection.sources import Sources
from pipeline.space.genotype import Genotype
from pipeline.space.genotype_file import parse_genotype_file
from pipeline.space.spaces import space_named
from pipeline.stages.context import Context
from pipeline.stages.judgement import alpha_scores, judge, make_sources

_MAX_FILE_MB = 50
_FEWEST = 2


class Line(NamedTuple):
    """A genotype and the line of the file it stands on."""

    number: int
    genotype: Genotype


def rank(context: Context, path: Path) -> dict[str, Any]:
    """`pipeline rank --genotypes FILE`: every genotype with its score, its figures by source, and the weights used."""
    lines = read_genotypes(path, context.config.target.space)
    sources = make_sources(context, _found_scores(context))
    pool = Pool(space_named(context.config.target.space), tuple(line.genotype for line in lines))
    if not sources.names:
        raise UserError(
            "[discretize] evidence_minutes = 0 ranks by what the search has found, and this run has not searched: "
            "run `pipeline search`, or set evidence_minutes"
        )
    with context.run.locked():
        digest = hashlib.sha256(json.dumps([one.genotype.record() for one in lines]).encode()).hexdigest()[:12]
        evidence = judge(context, pool, sources, context.run.root / "rank" / f"{digest}.jsonl")
    if not evidence.weights.any() and evidence.process is None:
        raise PromiseBroken("there is nothing to rank by: raise [discretize] evidence_steps, or run `pipeline search`")
    standings = evidence.standings()
    if standings:
        show(show_evidence(standings))
    weights = dict(zip(evidence.names, evidence.weights.tolist(), strict=True))
    weights |= {row.source: row.weight for row in standings if row.weight is not None}
    return _record(lines, sources, evidence.predict(sources.look(pool.networks)).mean, weights)


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


def _found_scores(context: Context) -> Scores | None:
    if not context.run.alphas.is_file():
        say("this run has not searched yet: the search's alpha is no source (`pipeline search` makes it one)")
        return None
    return alpha_scores(context, context.read(Alphas))


def _record(lines: list[Line], sources: Sources, scores: Any, weights: dict[str, float]) -> dict[str, Any]:
    rows = []
    for line, score in zip(lines, scores, strict=True):
        figures = sources.figures(line.genotype)
        known = {n: f if np.isfinite(f) else None for n, f in zip(sources.names, figures, strict=True)}
        rows.append({"line": line.number, "score": float(score), "sources": known})
    return {"genotypes": rows, "weights": weights}
