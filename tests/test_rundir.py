"""Files appear whole or not at all; names cannot leave the project; a run has one user."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import UserError
from pipeline.resumable.history import read_history
from pipeline.rundir import RunDir
from pipeline.runner.log import logged
from pipeline.whole_files import read_given, read_json, sha256_of, sweep_parts, write_json, writing


@pytest.mark.parametrize("name", ["a/b", "..", "../x", "a..b", "", ".hidden", "x" * 65, "a b", "ä", "-x"])
def test_bad_run_names(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot name a run"):
        RunDir(tmp_path, name)


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path: Path) -> None:
    path = tmp_path / "value.json"
    write_json(path, {"a": 1})
    with pytest.raises(RuntimeError), writing(path) as part:
        part.write_text("half")
        raise RuntimeError
    with pytest.raises(ValueError, match=r"NaN|nan|JSON"):
        write_json(path, {"a": float("nan")})
    assert read_json(path) == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["value.json"]


def test_a_kill_in_the_middle_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "value.json"
    write_json(path, {"a": 1})
    code = (
        "import os, signal, sys; from pathlib import Path; from pipeline.whole_files import writing\n"
        "with writing(Path(sys.argv[1])) as part:\n"
        "    part.write_text('half'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert done.returncode == -9
    assert read_json(path) == {"a": 1}


def test_permissions_follow_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        write_json(tmp_path / "value.json", 1)
    finally:
        os.umask(before)
    assert (tmp_path / "value.json").stat().st_mode & 0o777 == 0o644


def test_damaged_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "value.json").write_text("{")
    with pytest.raises(UserError, match=r"value\.json is damaged"):
        read_json(tmp_path / "value.json")


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), Path.mkdir])
def test_nothing_that_is_no_file_is_waited_for(make: Callable[[Path], None], tmp_path: Path) -> None:
    run = RunDir(tmp_path, "one")
    run.root.mkdir(parents=True)
    for path in (run.environment, run.log, run.history("search")):
        path.parent.mkdir(exist_ok=True)
        make(path)
    with pytest.raises(UserError, match=r"environment\.json: it is not a file"):
        read_json(run.environment)
    assert read_history(run.history("search")) == []
    with logged(run):
        pass


def test_hash_is_of_the_content(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    assert sha256_of(tmp_path / "a") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_a_run_in_use_is_refused(tmp_path: Path) -> None:
    run = RunDir(tmp_path, "one")
    code = (
        "import sys; from pathlib import Path; from pipeline.rundir import RunDir\n"
        "with RunDir(Path(sys.argv[1]), 'one').locked(): print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        with pytest.raises(UserError, match="in use"), run.locked():
            pass
        with RunDir(tmp_path, "two").locked():
            pass
        other.kill()
    with run.locked():
        pass


def test_parts_of_the_dead_are_swept_at_once_and_those_of_the_living_stay(tmp_path: Path) -> None:
    """Wherever they are, also among tables that several runs write."""
    run = RunDir(tmp_path, "one")
    code = (
        "import sys; from pathlib import Path; from pipeline.whole_files import writing\n"
        "with writing(Path(sys.argv[1])) as part:\n"
        "    part.write_text('half'); print(part, flush=True); sys.stdin.read()"
    )
    for path in (run.tables / "table.json", run.report, run.exported_report):
        command = [sys.executable, "-c", code, str(path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout is not None
            part = Path(other.stdout.readline().strip())
            with run.locked():
                assert part.read_text() == "half"
            other.kill()
            other.wait()
        with run.locked():
            assert not part.exists() and not path.exists()


def test_a_part_that_is_swept_before_it_is_locked_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make, made = tempfile.mkstemp, []

    def make_and_lose(**where: Any) -> tuple[int, str]:
        made.append(make(**where))
        if len(made) == 1:
            sweep_parts(tmp_path)
        return made[-1]

    monkeypatch.setattr("pipeline.whole_files.tempfile.mkstemp", make_and_lose)
    write_json(tmp_path / "value.json", 1)
    assert len(made) == 2 and [one.name for one in tmp_path.iterdir()] == ["value.json"]


def test_a_file_that_a_user_names_is_read_or_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "given"
    with pytest.raises(UserError, match=r"cannot read .*given: No such file"):
        read_given(path, 1)
    path.write_bytes(b"x" * 1_000_000)
    assert len(read_given(path, 1)) == 1_000_000
    path.write_bytes(b"x" * 1_000_001)
    with pytest.raises(UserError, match="larger than 1 MB"):
        read_given(path, 1)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="not a file"):
        read_given(tmp_path / "pipe", 1)
    with pytest.raises(UserError, match=r"cannot read .*: Is a directory"):
        read_given(tmp_path, 1)
