"""The player reports what processes did, also when several are played at once."""

import itertools
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import forkserver
from pathlib import Path

import pytest

from tests.campaign.case import Case
from tests.campaign.player import fork_server, run


def test_exit_codes_are_those_of_the_processes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A code is read once: were two threads in between, the second would find nothing and call it 255."""
    pauses = itertools.cycle([0.3, 0.02, 0.1])  # the one that asks first is not always the one that reads first
    read = forkserver.read_signed

    def read_slowly(descriptor: int) -> int:
        time.sleep(next(pauses))
        return int(read(descriptor))

    monkeypatch.setattr(forkserver, "read_signed", read_slowly)
    (tmp_path / "ends.py").write_text("raise SystemExit(2)")
    case, server = Case("some", "case", (), script=str(tmp_path / "ends.py")), fork_server()

    def play(number: int) -> int:
        place = tmp_path / str(number)
        (place / "project").mkdir(parents=True)
        return run(case, place / "project", place, server).code

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(play, range(16))) == {2}
