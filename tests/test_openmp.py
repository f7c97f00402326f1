"""How many threads the environment asks for; idle ones sleep on a busy machine, and only there."""

import os
from pathlib import Path

import pytest

from pipeline.openmp import settle_waiting, threads_of_environment


@pytest.mark.parametrize(
    ("load", "policy"),
    [("1.9 1.5 1.2 1/77 5353", None), ("0.1 0.2 0.3 3/77 5353", "passive"), ("", None), (None, None)],
)
def test_only_a_busy_machine_makes_threads_sleep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, load: str | None, policy: str | None
) -> None:
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    if load is not None:
        (tmp_path / "loadavg").write_text(load)
    settle_waiting(tmp_path / "loadavg")
    assert os.environ.get("OMP_WAIT_POLICY") == policy


def test_the_users_own_setting_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    (tmp_path / "loadavg").write_text("9 9 9 9/99 1")
    settle_waiting(tmp_path / "loadavg")
    assert os.environ["OMP_WAIT_POLICY"] == "active"


@pytest.mark.parametrize(("said", "threads"), [("1", 1), (" 3,2", 3), ("", 0), ("many", 0), (None, 0)])
def test_the_environment_may_say_how_many_threads(
    monkeypatch: pytest.MonkeyPatch, said: str | None, threads: int
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if said is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", said)
    assert threads_of_environment() == threads
