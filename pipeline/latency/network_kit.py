"""Networks or files as a timing kit: what the target has measured of each, as if it had been timed here."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.errors import UserError
from pipeline.fingerprint import Fingerprint, describe_differences
from pipeline.latency.budget_rule import Measured
from pipeline.latency.kit import Kit, KitResult, read_kit
from pipeline.latency.measure import CAREFUL
from pipeline.latency.target import certain, rounds_for, summarize_journal

_TAIL_ROUNDS = 2  # times what a tail needs at least: nobody looks at the intervals on the target


class Asked(NamedTuple):
    """The target as its latency table knows it, and what must become known there."""

    fingerprint: Fingerprint
    sentinel_ms: float | None
    percentiles: tuple[int, ...]
    max_noise_floor: float


def network_kit(about: dict[str, Any], models: Mapping[str, Callable[[], bytes]], asked: Asked, command: str) -> Kit:
    """Models by name, all timed in turn as often as a certificate needs."""
    tails = max(asked.percentiles) > 50
    rounds = rounds_for(CAREFUL, asked.percentiles) * (_TAIL_ROUNDS if tails else 1)
    effort = replace(CAREFUL, rounds=rounds)
    return Kit(about, [dict(models)], effort, asked.fingerprint.threads, asked.fingerprint.batch, command)


class Answers(NamedTuple):
    """What the target has measured: kit.json as it was handed out, and the latency of every model by name."""

    kit: dict[str, Any]
    measured: Mapping[str, Measured]


def read_network_kit(path: Path, about: dict[str, Any], asked: Asked) -> Answers:
    """The latencies in a kit's result; another machine than that of the table, or one too noisy, is refused."""
    result = read_kit(path, about)
    differences = describe_differences(asked.fingerprint, result.fingerprint)
    if differences:
        raise UserError(
            f"{path} was measured on another machine than the latency table ({'; '.join(differences)}); run "
            "time_kit.py on the target, or `pipeline profile --write-kit` for this one"
        )
    return Answers(result.kit, _summarize(result, asked))


def _summarize(result: KitResult, asked: Asked) -> dict[str, Measured]:
    names = [name for group in result.kit["groups"] for name in group]
    found = summarize_journal(result.journal, names, asked.sentinel_ms)
    for measured in found.values():
        for percentile in asked.percentiles:
            certain(measured, percentile, asked.max_noise_floor)
    return found
