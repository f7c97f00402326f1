"""`pipeline inspect` and `pipeline bench`: whose network, on which machine; JSON alone on stdout."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.latency.measure import Effort
from pipeline.latency.target import TargetMachine
from pipeline.whole_files import write_json
from tests.cli.conftest import Run, refused
from tests.latency.fakes import FINGERPRINT, FakeDevice
from tests.latency.test_bench import with_input
from tests.report.made_run import NETWORK, add_budgets, made_run


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


def test_inspect_prints_the_published_counts(pipeline: Run, project: Path) -> None:
    size = ["--cells", "14", "--channels", "48", "--resolution", "224", "--classes", "1000"]
    done = pipeline("inspect", "--genotype", "genotype.json", *size, "--json", cwd=project)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["params"], found["macs"], found["measured_ms"]) == (4_718_752, 529_911_552, None)


def test_inspect_looks_at_the_default_run_as_other_commands_do(pipeline: Run, tmp_path: Path) -> None:
    made_run(tmp_path).root.rename(tmp_path / "runs" / "default")
    (tmp_path / "pipeline.toml").write_text("")
    done = pipeline("inspect", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["budget_ms"] == 1.0
    assert "[default: (default)]" in " ".join(pipeline("inspect", "--help", cwd=tmp_path).stdout.split())


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
