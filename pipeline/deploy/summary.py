"""The closing table: what was promised, what was measured, and the line that loads the model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.table import Table

from pipeline.config import TargetConfig


def summarize(card: Mapping[str, Any]) -> Table:
    """The figures of a model card that a person wants to see."""
    measured, certificate = card["measured_ms"], card["certificate"]
    rows = {
        "test accuracy": f"{card['test_accuracy']:.2%}",
        "parameters": f"{card['params']:,}",
        "multiply-adds": f"{card['macs'] / 1e6:,.2f} M",
        "file size": f"{card['file_mb']:.2f} MB",
        "budget": f"{card['budget_ms']:g} ms at p{card['percentile']}",
        "predicted": _milliseconds(certificate.get("predicted_ms")),
        "measured p50 / p95 / p99": " / ".join(_milliseconds(measured[name]) for name in ("p50", "p95", "p99")),
        "noise floor": _noise(card["noise_floor"]),
        "contract": f"all {len(card['contract'])} clauses kept",
    }
    if card["int8"] is not None:
        rows["int8"] = f"{'shipped' if card['int8']['shipped'] else 'not shipped'}: {card['int8']['reason']}"
    table = Table(show_header=False, title=f"exports/{card['run']['name']}")
    for name, value in rows.items():
        table.add_row(name, value)
    return table


def _milliseconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g} ms"


def _noise(floor: float) -> str:
    strict = TargetConfig().max_noise_floor
    return f"{floor:.0%}" if floor <= strict else f"{floor:.0%}: provisional, measure again on a quiet machine"


def loading_line(model: Path) -> str:
    """Python that loads the model."""
    return f"import onnxruntime; session = onnxruntime.InferenceSession({str(model)!r})"
