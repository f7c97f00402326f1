"""teach, retrain --teacher, --start and --dry-run from the command line: exit codes, and what is left on disk."""

from pathlib import Path

import pytest

from pipeline.artifacts.network import ChosenNetwork
from pipeline.rundir import RunDir
from pipeline.runner.opening import open_run
from pipeline.space.genotype import genotype_from_record
from tests.cli.conftest import Run, refused
from tests.conftest import DARTS_V2_RECORD
from tests.stages.made_teachers import SMALLEST, write_onnx, write_timm

TOML = """
[data]
resolution = 8
[compute]
threads = 1
[target]
cells = 3
channels = 4
[retrain]
epochs = 3
precision = "float32"
[teach]
epochs = 1
resolution = 32
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A run whose network is chosen."""
    (tmp_path / "pipeline.toml").write_text(TOML)
    context = open_run(tmp_path / "pipeline.toml", "default", {})
    context.write(ChosenNetwork(genotype=genotype_from_record(DARTS_V2_RECORD), skeleton=context.target_skeleton))
    write_onnx(tmp_path / "teacher.onnx")
    return tmp_path


def files(project: Path) -> set[Path]:
    return {path for path in project.rglob("*") if path.is_file()}


def test_a_dry_run_states_both_costs_and_writes_nothing(pipeline: Run, project: Path) -> None:
    before = files(project)
    done = pipeline("retrain", "--dry-run", "--teacher", "teacher.onnx", cwd=project)
    assert done.returncode == 0, done.stderr
    for part in ("without a teacher: about", "with the teacher: about", "asked about every image", "is right on"):
        assert part in done.stderr
    assert files(project) == before


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        (("--teacher", "net.pth"), "save_file"),
        (("--teacher", "nothing.onnx"), "there is no"),
        (("--teacher", "timm:resnet19"), "did you mean resnet1"),
        (("--teacher", "timm:resnet18"), "`pipeline teach`"),
        (("--start", "best"), "[retrain] start"),
        (("--start", "run:nobody"), "pipeline retrain --run nobody"),
        (("--start", "supernet"), "pipeline search"),
    ],
)
def test_what_cannot_be_is_one_sentence(pipeline: Run, project: Path, flags: tuple[str, ...], part: str) -> None:
    before = files(project)
    refused(pipeline("retrain", "--dry-run", *flags, cwd=project), part)
    assert files(project) == before


def test_teach_fine_tunes_and_says_what_is_next(pipeline: Run, project: Path) -> None:
    write_timm(project / "base.safetensors", classes=7, channels=3)
    other = project / "elsewhere"
    other.mkdir()
    done = pipeline(
        "teach", "--config", "../pipeline.toml", "--teacher", f"timm:{SMALLEST}@../base.safetensors", cwd=other
    )
    assert done.returncode == 0, done.stderr
    assert "next: pipeline retrain" in done.stderr and "epoch 1 of 1 took" in done.stderr
    assert RunDir(project, "default").taught_teacher.is_file()
    again = pipeline("teach", cwd=project)
    assert again.returncode == 0 and "up to date" in again.stderr, "the flag is remembered"
    dry = pipeline("retrain", "--dry-run", cwd=project)
    assert dry.returncode == 0 and "base.safetensors is right on" in dry.stderr


def test_teach_without_a_teacher_is_refused(pipeline: Run, project: Path) -> None:
    refused(pipeline("teach", cwd=project), "is empty", "timm:NAME")
