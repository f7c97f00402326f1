import json
import math
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest

from pipeline.errors import UserError
from pipeline.latency.campaign import Campaign
from pipeline.latency.campaign_kit import campaign_kit, read_campaign_kit
from pipeline.latency.kit import write_kit
from pipeline.latency.kit_script import KIT_FILE, RESULT_FILE, kit_id, time_kit
from pipeline.latency.measure import Effort
from pipeline.space.plan import all_sites
from pipeline.space.skeleton import Skeleton

SKELETON = Skeleton("nasbench201", cells=1, channels=16, resolution=32, classes=3)
CAMPAIGN = Campaign((SKELETON,), copies=5, calibration_networks=4, validation_networks=2)
EFFORT = Effort(rounds=4, calls=3, extra_rounds=0)


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kit") / "kit"
    write_kit(campaign_kit(CAMPAIGN, EFFORT, threads=1, batch=1), folder)
    return folder


@pytest.fixture(scope="module")
def result(kit: Path) -> Path:
    """What the kit's script writes, its readings replaced by those of a clock that charges per call and weight."""
    time_kit(kit, "cpu", kit / RESULT_FILE)
    record = json.loads((kit / RESULT_FILE).read_text())
    for name, rows in record["journal"]["readings"].items():
        ms = 0.25 + 0.001 * weights_of(kit / record["kit"]["files"][name]["file"])
        rows[:] = [[ms, ms, 0.25]] * len(rows)
    (kit / RESULT_FILE).write_text(json.dumps(record))
    return kit / RESULT_FILE


def weights_of(path: Path) -> int:
    return sum(math.prod(tensor.dims) for tensor in onnx.load(path).graph.initializer)


def changed(result: Path, tmp_path: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    record = json.loads(result.read_text())
    change(record)
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(record))
    return path


def test_the_round_trip_makes_a_table(result: Path) -> None:
    table = read_campaign_kit(result, CAMPAIGN)
    column = table.column("fp32")
    assert set(column.sites) == {site.key for site in all_sites(SKELETON)}
    entry = column.entry(SKELETON)
    assert entry is not None and entry.validation is not None
    assert entry.calibration.kappa == pytest.approx(1.0, rel=0.01)
    assert entry.validation.mape < 0.005
    assert table.fingerprint.threads == 1 and table.fingerprint.provider == "CPUExecutionProvider"


def test_the_kit_holds_no_torch(kit: Path) -> None:
    for path in (kit / "pipeline").rglob("*.py"):
        assert "import torch" not in path.read_text() and "import onnx\n" not in path.read_text(), path
    assert not any(str(Path.cwd()) in path.read_text() for path in kit.rglob("*.py"))


def test_a_stopped_kit_goes_on(kit: Path, result: Path, tmp_path: Path) -> None:
    """Half of the readings are there already: only the others are taken."""
    record = json.loads(result.read_text())
    record["complete"] = False
    for rows in record["journal"]["readings"].values():
        del rows[6:]
    half = tmp_path / "half.json"
    half.write_text(json.dumps(record))
    time_kit(kit, "cpu", half)
    finished = json.loads(half.read_text())
    assert finished["complete"]
    for name, rows in finished["journal"]["readings"].items():
        assert len(rows) == 12 and rows[:6] == record["journal"]["readings"][name]


def test_a_damaged_model_is_noticed_on_the_target(kit: Path, tmp_path: Path) -> None:
    model = next((kit / "models").iterdir())
    content = model.read_bytes()
    model.write_bytes(content[:-1])
    try:
        with pytest.raises(UserError, match="missing or damaged"):
            time_kit(kit, "cpu", tmp_path / "r.json")
    finally:
        model.write_bytes(content)


def test_a_result_of_another_kit_is_refused(result: Path) -> None:
    other = Campaign((SKELETON,), copies=4, calibration_networks=4, validation_networks=2)
    with pytest.raises(UserError, match="another kit: it differs in copies"):
        read_campaign_kit(result, other)


def test_an_edited_result_is_refused(result: Path, tmp_path: Path) -> None:
    path = changed(result, tmp_path, lambda r: r["kit"].update(threads=7))
    with pytest.raises(UserError, match="was changed"):
        read_campaign_kit(path, CAMPAIGN)


def test_an_incomplete_result_is_refused(result: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not complete"):
        read_campaign_kit(changed(result, tmp_path, lambda r: r.update(complete=False)), CAMPAIGN)
    with pytest.raises(UserError, match="not complete"):
        read_campaign_kit(changed(result, tmp_path, lambda r: r["journal"]["readings"].popitem()), CAMPAIGN)


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("value", [-1.0, 0.0, float("nan"), float("inf"), "fast"])
def test_impossible_times_are_refused(result: Path, tmp_path: Path, value: object, place: int) -> None:
    def spoil(record: dict[str, Any]) -> None:
        next(iter(record["journal"]["readings"].values()))[0][place] = value

    with pytest.raises(UserError, match="positive numbers"):
        read_campaign_kit(changed(result, tmp_path, spoil), CAMPAIGN)


def test_another_version_is_refused(result: Path, tmp_path: Path) -> None:
    def newer(record: dict[str, Any]) -> None:
        record["kit"]["kit_version"] = 9
        record["kit_id"] = kit_id(record["kit"])

    with pytest.raises(UserError, match="version 9, this program reads 1"):
        read_campaign_kit(changed(result, tmp_path, newer), CAMPAIGN)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\xff\x00", b'{"kit": 3}'])
def test_what_is_no_result_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "r.json"
    path.write_bytes(content)
    with pytest.raises(UserError):
        read_campaign_kit(path, CAMPAIGN)
    with pytest.raises(UserError, match="cannot read"):
        read_campaign_kit(tmp_path / "none.json", CAMPAIGN)


def test_a_folder_in_use_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(UserError, match="not empty"):
        write_kit(campaign_kit(CAMPAIGN, EFFORT, 1, 1), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.slow
def test_the_kit_runs_where_there_is_only_numpy_and_onnxruntime(kit: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", "numpy", "onnxruntime"], check=True)
    found = subprocess.run([python, "-c", "import torch"], capture_output=True, check=False)
    assert found.returncode != 0
    out = tmp_path / "result.json"
    command = [str(word) for word in (python, kit / "time_kit.py", "--out", out)]
    stopped = subprocess.Popen(command, stderr=subprocess.PIPE, cwd=tmp_path)
    try:
        stopped.wait(timeout=3)
    except subprocess.TimeoutExpired:
        stopped.kill()
        stopped.wait()
    finished = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert finished.returncode == 0, finished.stderr
    assert "done" in finished.stderr
    table = read_campaign_kit(out, CAMPAIGN)
    assert table.column("fp32").entry(SKELETON) is not None
    assert json.loads((kit / KIT_FILE).read_text())["threads"] == 1
    assert sys.prefix not in json.dumps(json.loads(out.read_text())["kit"])
