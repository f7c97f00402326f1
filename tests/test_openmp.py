"""Idle threads sleep on a busy machine, and only there."""

import os
from pathlib import Path

import pytest

from pipeline.openmp import settle_waiting


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
