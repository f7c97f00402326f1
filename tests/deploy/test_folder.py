import errno
import shutil
from pathlib import Path

import pytest

from pipeline.deploy.folder import owner_of, replacing
from pipeline.errors import PromiseBroken, UserError
from pipeline.rundir import RunDir
from pipeline.whole_files import write_json


def fill(folder: Path, run: RunDir, content: str) -> None:
    (folder / "model.onnx").write_text(content)
    write_json(folder / "model.json", {"run": owner_of(run)})


def listing(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return RunDir(tmp_path, "demo")


@pytest.fixture
def exported(run: RunDir) -> dict[str, str]:
    with replacing(run) as folder:
        assert not run.exports.exists()
        fill(folder, run, "old")
        (folder / "model.int8.onnx").write_text("old")
    return listing(run.exports)


def only_the_export_is_there(run: RunDir) -> bool:
    return [path.name for path in run.exports.parent.iterdir()] == ["demo"]


def test_a_new_export_replaces_the_old_one_as_a_whole(run, exported):
    (run.exports / "notes.txt").write_text("the user's")
    (run.exports / "mine").mkdir()
    with replacing(run) as folder:
        fill(folder, run, "new")
        assert listing(run.exports)["model.onnx"] == "old"
    assert set(listing(run.exports)) == {"model.onnx", "model.json", "notes.txt"}
    assert listing(run.exports)["model.onnx"] == "new" and (run.exports / "mine").is_dir()
    assert only_the_export_is_there(run)


@pytest.mark.parametrize(
    "error", [PromiseBroken("latency"), KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left")]
)
def test_whatever_stops_an_export_leaves_the_old_one(run, exported, error):
    expected = UserError if isinstance(error, OSError) else type(error)
    with pytest.raises(expected, match="No space left" if expected is UserError else None), replacing(run) as folder:
        fill(folder, run, "new")
        raise error
    assert listing(run.exports) == exported and only_the_export_is_there(run)


def test_a_swap_that_fails_is_undone(run, exported, monkeypatch):
    rename = Path.rename

    def fail(self, target):
        if self.name.endswith(".building"):
            raise OSError(errno.EROFS, "Read-only file system")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(UserError, match="Read-only"), replacing(run) as folder:
        fill(folder, run, "new")
    assert listing(run.exports) == exported and only_the_export_is_there(run)


def test_a_swap_that_was_killed_half_way_is_repaired(run, exported):
    run.exports.rename(run.exports.parent / ".demo.previous")
    (run.exports.parent / ".demo.building").mkdir()
    with pytest.raises(PromiseBroken), replacing(run) as folder:
        assert not list(folder.iterdir())
        raise PromiseBroken("latency")
    assert listing(run.exports) == exported and only_the_export_is_there(run)


def test_another_runs_export_is_not_overwritten(run, exported, tmp_path):
    elsewhere = RunDir(tmp_path / "other", "demo")
    elsewhere.exports.parent.mkdir(parents=True)
    run.exports.rename(elsewhere.exports)
    with pytest.raises(UserError, match="another run"), replacing(elsewhere) as folder:
        fill(folder, elsewhere, "new")
    assert listing(elsewhere.exports) == exported


@pytest.mark.parametrize("card", [None, "[]", "not json"])
def test_a_folder_that_is_not_ours_is_not_overwritten(run, card):
    run.exports.mkdir(parents=True)
    (run.exports / "thesis.txt").write_text("precious")
    if card:
        (run.exports / "model.json").write_text(card)
    with pytest.raises(UserError), replacing(run):
        pass
    assert (run.exports / "thesis.txt").read_text() == "precious"


def test_a_target_that_cannot_be_written(run):
    run.exports.parent.write_text("a file where a folder should be")
    with pytest.raises(UserError, match="cannot write to"), replacing(run):
        pass


def test_a_moved_project_and_a_run_started_anew_keep_their_export(tmp_path):
    first = RunDir(tmp_path / "here", "demo")
    with replacing(first) as folder:
        fill(folder, first, "old")
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    shutil.rmtree(first.root)
    for run in (RunDir(tmp_path / "there", "demo"), first):
        with replacing(run) as folder:
            fill(folder, run, "new")
        assert listing(run.exports)["model.onnx"] == "new"


def test_an_export_from_elsewhere_is_not_overwritten(tmp_path):
    first, second = RunDir(tmp_path / "here", "demo"), RunDir(tmp_path / "there", "demo")
    with replacing(first) as folder:
        fill(folder, first, "old")
    shutil.copytree(first.exports, second.exports)
    with pytest.raises(UserError, match="another run"), replacing(second):
        pass
