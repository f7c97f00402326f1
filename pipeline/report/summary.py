"""The closing words of a run: what was promised, what was measured, and how to load the model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.table import Table

from pipeline.console import console, say
from pipeline.errors import UserError
from pipeline.latency.target import FIRM_NOISE_FLOOR, P50_MEANS
from pipeline.rundir import RunDir, read_json


def print_summary(run: RunDir) -> None:
    """The table of the export and the line of Python that loads it."""
    if not run.model_card.is_file():
        raise UserError(f"there is no {run.model_card}; run `pipeline export` first")
    table = Table(show_header=False, title=f"exports/{run.name}")
    for name, value in summarize(read_json(run.model_card)).items():
        table.add_row(name, value)
    console.print(table)
    say(P50_MEANS)
    say(loading_line(run.model))


def summarize(card: Mapping[str, Any]) -> dict[str, str]:
    """The figures of a model card that a person wants to see."""
    measured, certificate = card["measured_ms"], card["certificate"]
    rows = {
        "test accuracy": f"{card['test_accuracy']:.2%}",
        "parameters": f"{card['params']:,}",
        "multiply-adds": f"{card['macs'] / 1e6:,.2f} M",
        "file size": f"{card['file_mb']:.2f} MB",
        "budget": f"{card['budget_ms']:g} ms at p{card['percentile']}{_near(card)}",
        "predicted": _predicted(certificate),
        "certificate": _certified(certificate),
        "measured p50 / p95 / p99": " / ".join(_milliseconds(measured[name]) for name in ("p50", "p95", "p99")),
        "median of all calls (raw_p50)": _milliseconds(measured.get("raw_p50")),
        "noise floor": _noise(card["noise_floor"]),
        "contract": f"all {len(card['contract'])} clauses kept",
    }
    if card["int8"] is not None:
        rows["int8"] = f"{'shipped' if card['int8']['shipped'] else 'not shipped'}: {card['int8']['reason']}"
    return rows


def _milliseconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g} ms"


def _predicted(certificate: Mapping[str, Any]) -> str:
    doubt = (
        "" if certificate.get("table_validated", True) else " (provisional: the latency table misses its validity gate)"
    )
    return _milliseconds(certificate["predicted_ms"]) + doubt


def _certified(certificate: Mapping[str, Any]) -> str:
    measured = certificate["measured_ms"][f"p{certificate['percentile']}"]
    noise = _noise(certificate["noise_floor"])
    return f"{_milliseconds(measured)} before training, noise floor {noise}{_near(certificate)}"


def _near(record: Mapping[str, Any]) -> str:
    """The mark of a latency that another measurement may well find over the budget."""
    if not record.get("within_noise"):
        return ""
    low, high = map(_milliseconds, record["measured_interval_ms"])
    return f"; within the noise of the budget: p{record['percentile']} lies between {low} and {high}"


def _noise(floor: float) -> str:
    return f"{floor:.0%}" if floor <= FIRM_NOISE_FLOOR else f"{floor:.0%}: provisional"


def loading_line(model: Path) -> str:
    """Python that loads the model."""
    return f"import onnxruntime; session = onnxruntime.InferenceSession({str(model)!r})"
