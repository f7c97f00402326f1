"""The closing table says in plain words what a busy machine leaves uncertain."""

from pathlib import Path
from typing import Any

from pipeline.report.summary import loading_line, summarize
from tests.artifacts.made import made_card, made_certificate

CERTIFICATE = made_certificate(
    budget_ms=0.3,
    percentile=95,
    predicted_ms=0.17,
    measured_ms={"p50": 0.173, "p95": 0.224, "p99": 0.3},
    noise_floor=0.04,
)
CARD = made_card(
    test_accuracy=0.9833,
    params=83690,
    macs=4250112,
    file_mb=0.35,
    budget_ms=0.3,
    percentile=95,
    certificate=CERTIFICATE,
    measured_ms={"p50": 0.171, "p95": 0.22, "p99": 0.25, "raw_p50": 0.21},
    noise_floor=0.02,
)


def test_a_quiet_run_has_figures_and_no_reservations() -> None:
    rows = summarize(CARD)
    assert rows["certificate"] == "0.224 ms before training, noise floor 4.0%"
    assert rows["measured p50 / p95 / p99"] == "0.171 ms / 0.22 ms / 0.25 ms"
    assert rows["median of all calls (raw_p50)"] == "0.21 ms"
    assert not any(doubt in value for doubt in ("provisional", "within the noise") for value in rows.values())


def test_a_result_within_the_noise_of_its_budget_is_marked() -> None:
    near: dict[str, Any] = {"within_noise": True, "measured_interval_ms": (0.281, 0.3004)}
    mark = "; within the noise of the budget: p95 lies between 0.281 and 0.3004 ms"
    certificate = CERTIFICATE.model_copy(update=near)
    rows = summarize(CARD.model_copy(update=near | {"certificate": certificate}))
    assert rows["budget"] == f"0.3 ms at p95{mark}"
    assert rows["certificate"].endswith(f"noise floor 4.0%{mark}")


def test_noise_and_a_table_below_its_gate_are_said() -> None:
    certificate = CERTIFICATE.model_copy(update={"noise_floor": 0.12, "table_validated": False})
    rows = summarize(CARD.model_copy(update={"certificate": certificate, "noise_floor": 0.2}))
    assert rows["certificate"].endswith("noise floor 12.0%: provisional")
    assert rows["noise floor"] == "20.0%: provisional"
    assert rows["predicted"] == "0.17 ms (provisional: the latency table misses its validity gate)"


def test_a_transferred_genotype_has_no_prediction() -> None:
    certificate = CERTIFICATE.model_copy(update={"predicted_ms": None, "table_validated": None})
    assert summarize(CARD.model_copy(update={"certificate": certificate}))["predicted"] == "–"


def test_the_model_is_loaded_with_the_threads_of_its_certificate() -> None:
    line = loading_line(Path("exports/demo/model.onnx"), 3)
    assert "intra_op_num_threads = 3" in line and "('exports/demo/model.onnx', options)" in line
    compile(line, "line", "exec")
