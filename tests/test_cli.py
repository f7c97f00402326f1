"""The command line: exit codes, one sentence for every mistake, JSON alone on stdout."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from PIL import Image

from pipeline.cli import main
from pipeline.errors import UserError
from pipeline.latency.measure import Effort
from pipeline.latency.target import TargetMachine
from pipeline.presets import PRESET_NAMES, render_preset
from pipeline.whole_files import write_json
from tests.conftest import DARTS_V2_RECORD
from tests.latency.fakes import FINGERPRINT, FakeDevice
from tests.latency.test_bench import with_input
from tests.report.made_run import NETWORK, add_budgets, made_run

ROOT = Path(__file__).parent.parent
COMMANDS = ("init", "check", "profile", "search", "discretize", "retrain", "export", "run", "inspect", "bench", "rank")


class Done(NamedTuple):
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Done]


@pytest.fixture
def pipeline(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The console script in this process, which has torch loaded already."""

    def run(*arguments: str, cwd: Path) -> Done:
        monkeypatch.chdir(cwd)
        monkeypatch.setattr(sys, "argv", ["pipeline", *arguments])
        monkeypatch.setenv("COLUMNS", "200")
        with pytest.raises(SystemExit) as stop:
            main()
        return Done(int(stop.value.code or 0), *capsys.readouterr())

    return run


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pipeline.toml").write_text((ROOT / "pipeline.toml").read_text())
    (tmp_path / "genotype.json").write_text(json.dumps(DARTS_V2_RECORD))
    return tmp_path


def refused(done: Done, *parts: str, code: int = 2) -> None:
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    for part in parts:
        assert part in done.stderr


def test_help_needs_no_torch() -> None:
    code = "import sys; import pipeline.cli.commands; sys.exit('torch' in sys.modules or 'onnxruntime' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_help_lists_every_command(pipeline: Run, tmp_path: Path) -> None:
    done = pipeline("--help", cwd=tmp_path)
    assert done.returncode == 0
    for command in COMMANDS:
        assert f" {command} " in done.stdout


def test_without_a_command_there_is_help_and_no_error(pipeline: Run, tmp_path: Path) -> None:
    done = pipeline(cwd=tmp_path)
    assert done.returncode == 0 and "error" not in done.stderr
    assert done.stdout == pipeline("--help", cwd=tmp_path).stdout


def test_version(pipeline: Run, tmp_path: Path) -> None:
    done = pipeline("--version", cwd=tmp_path)
    assert done == (0, f"latency-pipeline {version('latency-pipeline')}\n", "")


def test_help_shows_flags_as_flags_sections_whole_and_every_preset(pipeline: Run, tmp_path: Path) -> None:
    for command in COMMANDS:
        assert "<bool>" not in pipeline(command, "--help", cwd=tmp_path).stdout
    assert "[export]" in pipeline("export", "--help", cwd=tmp_path).stdout
    help_of_init = " ".join(pipeline("init", "--help", cwd=tmp_path).stdout.split())
    assert ", ".join(PRESET_NAMES) in help_of_init


def test_init_writes_little_or_everything(pipeline: Run, tmp_path: Path) -> None:
    for flags in ([], ["--full", "--force"]):
        assert pipeline("init", "--preset", "folder", *flags, cwd=tmp_path).returncode == 0
        assert (tmp_path / "pipeline.toml").read_text() == render_preset("folder", full=bool(flags))


def test_inspect_prints_the_published_counts(pipeline: Run, project: Path) -> None:
    size = ["--cells", "14", "--channels", "48", "--resolution", "224", "--classes", "1000"]
    done = pipeline("inspect", "--genotype", "genotype.json", *size, "--json", cwd=project)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["params"], found["macs"], found["measured_ms"]) == (4_718_752, 529_911_552, None)


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


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """How the target machine was opened, with a fake device in its place and little effort."""
    calls: list[tuple[object, ...]] = []

    def open_fake(*arguments: object) -> FakeDevice:
        calls.append(arguments)
        return FakeDevice(fingerprint=replace(FINGERPRINT, threads=arguments[1], batch=arguments[2]))  # type: ignore[arg-type]

    monkeypatch.setattr("pipeline.latency.target.open_device", open_fake)
    monkeypatch.setattr(TargetMachine, "effort", Effort(rounds=4, calls=2, extra_rounds=0))
    return calls


def test_bench_and_inspect_are_for_the_machine_of_pipeline_toml(
    pipeline: Run, project: Path, opened: list[tuple[object, ...]]
) -> None:
    (project / "pipeline.toml").write_text('[target]\ndevice = "cuda:1"\nthreads = 2\nbatch = 4\n')
    free = with_input(project / "free.onnx", "batch", 3)
    done = pipeline("bench", free.name, "--json", cwd=project)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["threads"], found["batch"], found["shape"]) == (2, 4, {"x0": [4, 3]})
    pipeline("bench", free.name, "--batch", "1", "--device", "cpu", cwd=project)
    pipeline("inspect", "--genotype", "genotype.json", "--backend", "torch", cwd=project)
    (project / "pipeline.toml").unlink()
    pipeline("bench", free.name, cwd=project)
    assert opened == [
        ("cuda:1", 2, 4, "onnxruntime"),
        ("cpu", 2, 1, "onnxruntime"),
        ("cuda:1", 2, 4, "torch"),
        ("cpu", 1, 1, "onnxruntime"),
    ]


def test_inspect_says_whose_network_it_shows_and_takes_one_of_several_budgets(
    pipeline: Run, tmp_path: Path, opened: list[tuple[object, ...]]
) -> None:
    run = made_run(tmp_path, network=NETWORK)
    add_budgets(run)
    (tmp_path / "pipeline.toml").write_text("")

    def inspect(*flags: str) -> dict[str, Any]:
        done = pipeline("inspect", "--run", "demo", "--json", *flags, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    found = {ms: inspect("--budget-ms", ms) for ms in ("1", "0.25")} | {"": inspect()}
    assert {ms: one["budget_ms"] for ms, one in found.items()} == {"1": 1.0, "0.25": 0.25, "": 1.0}
    assert (found["0.25"]["measured_ms"]["p50"], found[""]["measured_ms"]["p50"]) == (0.225, 0.9)
    assert found[""]["measured_by"] == "the certificate, before training (1 thread, batch 1)"
    assert found[""]["noise_floor"] == 0.01
    assert inspect("--channels", "8")["measured_ms"] is None, "the certificate is of another network"
    assert inspect("--measure")["measured_by"] == "this command"
    write_json(run.flags, {"target": {"threads": 3}})  # as `profile --threads 3` leaves them
    inspect()
    assert opened[-1][1] == 3
    refused(
        pipeline("inspect", "--run", "demo", "--budget-ms", "7", cwd=tmp_path), "chosen for 7 ms (there are 0.25, 0.5"
    )
    refused(pipeline("inspect", "--genotype", "g.json", "--budget-ms", "7", cwd=tmp_path), "give --run NAME")


def test_bench_refuses_free_axes_and_a_config_that_is_not_there(pipeline: Run, project: Path) -> None:
    free = with_input(project / "free.onnx", "batch", 3, "h", "w").name
    refused(pipeline("bench", free, cwd=project), "leaves axis 2 and 3 free", "--shape")
    refused(pipeline("bench", free, "--shape", "1,4,8,8", cwd=project), "takes [any, 3, any, any]")
    refused(pipeline("bench", free, "--shape", "1,3,8,8", "--config", "other.toml", cwd=project), "other.toml")
    refused(pipeline("bench", free, free, cwd=project), "--compare")


def test_a_comparison_ends_with_its_verdict_and_a_fixed_batch_is_named(
    pipeline: Run, project: Path, opened: list[tuple[object, ...]]
) -> None:
    one, eight = with_input(project / "one.onnx", 1, 3), with_input(project / "eight.onnx", 8, 3, 224, 224)
    done = pipeline("bench", "--compare", one.name, eight.name, cwd=project)
    assert done.returncode == 0, done.stderr
    *_, last = done.stdout.splitlines()
    assert last.startswith("verdict") and "one.onnx is faster by " in last and "more than noise" in last
    assert "b shape x0" in done.stdout and "8, 3, 224, 224" in done.stdout
    assert "eight.onnx was timed at its own batch of 8; [target] batch = 1" in done.stderr
    assert "median of undisturbed calls" in done.stderr
    assert opened


def test_inspect_looks_at_the_default_run_as_other_commands_do(pipeline: Run, tmp_path: Path) -> None:
    made_run(tmp_path).root.rename(tmp_path / "runs" / "default")
    (tmp_path / "pipeline.toml").write_text("")
    done = pipeline("inspect", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["budget_ms"] == 1.0
    assert "[default: (default)]" in " ".join(pipeline("inspect", "--help", cwd=tmp_path).stdout.split())


@pytest.mark.parametrize(
    ("command", "maker"), [("discretize", "profile"), ("retrain", "discretize"), ("export", "discretize")]
)
def test_a_missing_input_names_the_command_that_makes_it(
    pipeline: Run, project: Path, command: str, maker: str
) -> None:
    refused(pipeline(command, cwd=project), f"`pipeline {maker}`")


@pytest.mark.parametrize(
    "command",
    ["retrain", "export", "inspect", "report", "compare", "export --budget-ms 2", "report --budget-ms 2"],
)
def test_a_misspelt_run_is_told_from_one_that_is_not_so_far(pipeline: Run, project: Path, command: str) -> None:
    (project / "runs" / "default").mkdir(parents=True)
    refused(pipeline(*command.split(), "--run", "defalt", cwd=project), "there is no run 'defalt'; there are: default")
    assert not (project / "runs" / "defalt").exists()


@pytest.mark.parametrize(
    ("arguments", "following"),
    [
        (["profile"], "next: pipeline search --budget-ms 0.3"),
        (["search", "--run", "one"], "next: pipeline discretize --run one"),
        (["discretize"], "next: pipeline retrain"),
        (["discretize", "--from-kit", "kit_result.json"], "next: pipeline retrain"),
        (["retrain", "--yes"], "next: pipeline export"),
    ],
)
def test_every_stage_names_the_next_command(
    pipeline: Run, project: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], following: str
) -> None:
    for name in ("run_stage", "run_otherwise"):
        monkeypatch.setattr(f"pipeline.runner.execution.{name}", lambda *_: None)
    done = pipeline(*arguments, cwd=project)
    assert done.returncode == 0 and done.stderr.splitlines()[-1] == following


def test_a_kit_is_written_or_read_and_a_budget_must_have_a_network(pipeline: Run, project: Path) -> None:
    for command in ("profile", "discretize", "export"):
        both = ["--write-kit", "kit", "--from-kit", "kit_result.json"]
        refused(pipeline(command, *both, cwd=project), "either --write-kit DIR or --from-kit FILE")
    for command in ("retrain", "export"):
        refused(pipeline(command, "--budget-ms", "7", cwd=project), "no network was chosen for 7 ms")
    assert not (project / "runs").exists()


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


def test_check_prints_what_it_found_and_ends_with_2_on_damage(pipeline: Run, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for label in ("cat", "dog"):
        (tmp_path / "images" / label).mkdir(parents=True)
        for number in range(5):
            pixels = random.integers(0, 256, (9, 9, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "images" / label / f"{number}.png")
    (tmp_path / "images" / "fish").mkdir()
    assert pipeline("init", "--preset", "folder", cwd=tmp_path).returncode == 0
    done = pipeline("check", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {"images": "10", "classes": "2", "duplicates": "0", "largest_px": "9×9"}.items() <= dict(
        line.split() for line in done.stdout.splitlines()
    ).items()
    assert "fish holds no image" in done.stderr
    assert done.stderr.rstrip().endswith("next: pipeline profile")
    (tmp_path / "images" / "cat" / "3.png").write_bytes(b"no image")
    before = sorted(tmp_path.rglob("*"))
    done = pipeline("check", "--json", cwd=tmp_path)
    assert done.returncode == 2 and "3.png is damaged" in done.stderr
    found = json.loads(done.stdout)
    assert (found["classes"], len(found["refused"]), len(found["empty_folders"])) == (2, 1, 1)
    refused(pipeline("profile", cwd=tmp_path), "3.png is damaged")
    left = {path.name for path in set(tmp_path.rglob("*")) - set(before)}
    assert left <= {"runs", "default", ".lock"}, "found before anything is timed"
