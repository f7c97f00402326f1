"""The closing words of a run: what was promised, what was measured, and how to load the model."""

from pathlib import Path

from rich.table import Table

from pipeline.artifacts.certificate import Certificate
from pipeline.artifacts.model_card import ModelCard
from pipeline.console import say, show
from pipeline.latency.target import FIRM_NOISE_FLOOR, P50_MEANS
from pipeline.rundir import RunDir


def print_summary(run: RunDir) -> None:
    """The table of the export and the line of Python that loads it."""
    table = Table(show_header=False, title=f"exports/{run.exports.name}")
    card = ModelCard.read(run.model_card, run.call("export"))
    for name, value in summarize(card).items():
        table.add_row(name, value)
    show(table)
    say(P50_MEANS)
    if card.within_noise:
        say(f"provisional: `pipeline {run.call('export')} --force` measures again; do so while the machine is quiet")
    say(f"to load it: {loading_line(run.model, card.certificate.device.threads)}")
    say(f"next: python {run.predict_script.relative_to(run.project)} IMAGE_OR_FOLDER")


def summarize(card: ModelCard) -> dict[str, str]:
    """The figures of a model card that a person wants to see."""
    latency, certificate = card.latency_ms, card.certificate
    rows = {
        "test accuracy": f"{card.test_accuracy:.2%}",
        "parameters": f"{card.params:,}",
        "multiply-adds": f"{card.macs / 1e6:,.2f} M",
        "file size": f"{card.file_mb:.2f} MB",
        "budget": f"{card.budget_ms:g} ms at p{card.percentile}{_near(card)}",
        "predicted": _predicted(certificate),
        "certificate": _certified(certificate),
        f"{'measured' if card.measured_ms else 'predicted'} p50 / p95 / p99": " / ".join(
            _milliseconds(latency.at(q)) for q in (50, 95, 99)
        ),
        "latency": card.basis,
        "median of all calls (raw_p50)": _milliseconds(latency.raw_p50),
        "noise floor": _noise(card),
        "contract": f"all {len(card.contract)} clauses kept",
    }
    if card.int8 is not None:
        rows["int8"] = f"{'shipped' if card.int8.shipped else 'not shipped'}: {card.int8.reason}"
    return rows


def _milliseconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g} ms"


def _predicted(certificate: Certificate) -> str:
    doubt = " (provisional: the latency table misses its validity gate)" if certificate.table_validated is False else ""
    return _milliseconds(certificate.predicted_ms) + doubt


def _certified(certificate: Certificate) -> str:
    certified = _milliseconds(certificate.certified_ms)
    if certificate.noise_floor is None:
        return f"{certified}: {certificate.basis}{_near(certificate)}"
    return f"{certified} before training, noise floor {_noise(certificate)}{_near(certificate)}"


def _near(record: Certificate | ModelCard) -> str:
    """The mark of a latency that another measurement may well find over the budget."""
    if not record.within_noise or record.latency_interval_ms is None:
        return ""
    low, high = record.latency_interval_ms
    return f"; within the noise of the budget: p{record.percentile} lies between {low:.4g} and {high:.4g} ms"


def _noise(record: Certificate | ModelCard) -> str:
    return record.shown_noise + ": provisional" * ((record.noise_floor or 0.0) > FIRM_NOISE_FLOOR)


def loading_line(model: Path, threads: int) -> str:
    """Python that loads the model, with the threads that its latency was certified for."""
    return (
        f"import onnxruntime; options = onnxruntime.SessionOptions(); options.intra_op_num_threads = {threads}; "
        f"session = onnxruntime.InferenceSession({str(model)!r}, options)"
    )
