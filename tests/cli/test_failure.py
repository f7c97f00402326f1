"""How commands fail: one sentence and an exit code for every mistake, and a trace for --debug alone."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipeline.errors import UserError
from tests.cli.conftest import Run, refused


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["inspect", "--genotype", "genotype.json", "--run", "default"], ["either --genotype FILE or --run NAME"]),
        (["inspect"], ["runs/default/discretize/genotype.json", "`pipeline discretize`"]),
        (["inspect", "--run", ""], ["cannot name a run"]),
        (["inspect", "--genotype", "nothing.json"], ["nothing.json"]),
        (["inspect", "--genotype", "genotype.json", "--resolution", "30"], ["30 px", "32 px"]),
        (["inspect", "--genotype", "genotype.json", "--device", "tpu", "--measure"], ["tpu"]),
        (["inspect", "--run", "a/b"], ["cannot name a run"]),
        (["inspect", "--run", "none"], ["discretize"]),
        (["bench", "genotype.json"], ["genotype.json", "ONNX"]),
        (["bench", "nothing.onnx"], ["nothing.onnx"]),
        (["init", "--preset", "mnist"], ["mnist", "digits"]),
        (["init"], ["--force"]),
        (["search", "--budget-ms", "-1"], ["budget_ms"]),
        (["search", "--budget-ms", "nan"], ["budget_ms"]),
        (["search", "--budget-ms", "soon"], ["budget-ms"]),
        (["search", "--budget-ms", "1,1.5"], ["`pipeline discretize --budget-ms 1,1.5` chooses networks for several"]),
        (["export", "--budget-ms", "1,1.5"], ["`pipeline discretize --budget-ms 1,1.5` chooses networks for several"]),
        (["discretize", "--budget-ms", "5,x"], ["5,x"]),
        (["search", "--method", "random"], ["[search] method", "idarts"]),
        (["search", "--percentile", "75"], ["percentile"]),
        (["export", "--format", "tflite"], ["onnx"]),
        (["run", "--run", "../up"], ["cannot name a run"]),
        (["run", "--config", "other.toml"], ["other.toml", "pipeline init"]),
        (["serach"], ["search"]),
    ],
    ids=" ".join,
)
def test_mistakes_get_a_sentence(pipeline: Run, project: Path, arguments: list[str], parts: list[str]) -> None:
    before = sorted(path.name for path in project.iterdir())
    refused(pipeline(*arguments, cwd=project), *parts)
    assert sorted(path.name for path in project.iterdir()) == before, "nothing half-written"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_in_any_command_is_a_sentence_and_130(
    pipeline: Run, project: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    def hang(*_: object) -> None:
        os.kill(os.getpid(), number)
        time.sleep(60)

    monkeypatch.setattr("pipeline.runner.execution.run_stage", hang)
    before = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGHUP)}
    try:
        refused(pipeline("export", cwd=project), "interrupted", code=130)
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def test_an_interrupt_while_commands_are_imported_is_a_sentence_and_130() -> None:
    code = """
import sys

class Interrupting:
    def find_spec(self, name, *rest):
        if name == "pipeline.cli.stages":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting())
from pipeline.cli import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "error: interrupted before anything had begun\n")


@pytest.mark.parametrize(
    ("error", "code", "part"),
    [
        (RuntimeError("first line\nsecond"), 2, "a library could not do that (first line)"),
        (OverflowError("too large"), 2, "too large"),
        (MemoryError(), 2, "MemoryError"),
        (KeyError("surprise"), 1, "a mistake of the program"),
        (UserError("steered \x1b[2J\u2028 terminal"), 2, "steered \\x1b[2J\\u2028 terminal"),
    ],
)
def test_whatever_ends_a_command_is_a_sentence_and_debug_shows_the_trace(
    pipeline: Run, project: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int, part: str
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("pipeline.runner.execution.run_stage", fail)
    refused(pipeline("export", cwd=project), part, code=code)
    for arguments in (["export", "--debug"], ["--debug", "export"]):
        done = pipeline(*arguments, cwd=project)
        assert done.returncode == code and part in done.stderr
        assert "Traceback" in done.stderr and f"{type(error).__name__}" in done.stderr


def test_a_read_only_place_is_one_sentence(pipeline: Run, project: Path) -> None:
    (project / "runs").write_text("a file where the folder should be")
    refused(pipeline("search", cwd=project), "runs")
