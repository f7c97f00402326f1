"""A target that is elsewhere, all the way: kits carry the table, the candidates and the file to a slow machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.artifacts.certificate import Certificate
from pipeline.artifacts.known_latency import BEFORE_TRAINING, MEASURED, PREDICTED
from pipeline.artifacts.model_card import ModelCard
from pipeline.presets import render_preset
from tests.test_pipeline import SMALLER, pipeline

BUDGET_MS = 25.0  # far above all networks of the slow machine: a busy moment must not decide
# the kit's own files with a clock that runs ten times as long, under another processor's name
SLOW_MACHINE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from pipeline.latency import kit_script, onnx_device
read_clocks = onnx_device.read_clocks

def read_slowly(call, with_cpu_time):
    wall_ms, cpu_ms, _ = read_clocks(call, with_cpu_time)
    return onnx_device.Reading(10 * wall_ms, None if cpu_ms is None else 10 * cpu_ms)

onnx_device.read_clocks = read_slowly
onnx_device.processor_name = lambda: "Slow 1"
folder = Path(sys.argv.pop(1))
assert "torch" not in sys.modules and kit_script.__file__.startswith(str(folder))
sys.exit(kit_script.main(folder))
"""


def time_slowly(kit: Path) -> str:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [sys.executable, "-c", SLOW_MACHINE, str(kit)]
    subprocess.run(command, cwd=kit, check=True, capture_output=True, env=environment)
    return str(kit / "kit_result.json")


@pytest.mark.slow
def test_a_network_is_certified_on_a_slow_target(tmp_path: Path) -> None:
    text = render_preset("digits", full=True)
    for old, new in {**SMALLER, "epochs = 12": "epochs = 1"}.items():
        text = text.replace(old, new)
    (tmp_path / "pipeline.toml").write_text(text)
    run = tmp_path / "runs" / "default"

    pipeline(tmp_path, "profile", "--write-kit", "kit1")
    messages = pipeline(tmp_path, "profile", "--from-kit", time_slowly(tmp_path / "kit1"))
    (table,) = (tmp_path / "latency_tables").glob("*slow-1*.json")
    assert "next: pipeline search" in messages
    target = ["--table", str(table), "--allow-mismatch", "--budget-ms", str(BUDGET_MS)]
    pipeline(tmp_path, "search", *target)

    assert PREDICTED in pipeline(tmp_path, "discretize")
    assert Certificate.read(run / "discretize" / "certificate.json").basis == PREDICTED
    pipeline(tmp_path, "discretize", "--write-kit", "kit2")
    pipeline(tmp_path, "discretize", "--from-kit", time_slowly(tmp_path / "kit2"))
    certificate = Certificate.read(run / "discretize" / "certificate.json")
    assert (certificate.basis, certificate.device.processor) == (MEASURED, "Slow 1")
    assert certificate.predicted_ms is not None
    assert 0.2 < certificate.certified_ms / certificate.predicted_ms < 5  # here it would be a tenth
    assert certificate.certified_ms <= BUDGET_MS
    assert "✓ discretize" in pipeline(tmp_path, "discretize")

    pipeline(tmp_path, "retrain")
    assert BEFORE_TRAINING in pipeline(tmp_path, "export")
    card = ModelCard.read(tmp_path / "exports" / "default" / "model.json")
    assert card.basis == BEFORE_TRAINING and card.latency_ms == certificate.latency_ms
    pipeline(tmp_path, "export", "--write-kit", "kit3")
    pipeline(tmp_path, "export", "--from-kit", time_slowly(tmp_path / "kit3"))
    card = ModelCard.read(tmp_path / "exports" / "default" / "model.json")
    (latency,) = [clause for clause in card.contract if clause.clause == "latency"]
    assert card.basis == MEASURED == latency.figures["basis"] and latency.passed
    assert 0.2 < card.latency_ms.p50 / certificate.latency_ms.p50 < 5
