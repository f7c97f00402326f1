"""Progress without a terminal, and silence of all processes but the first."""

import time

import pytest

from pipeline import console as module
from pipeline.console import progress_bar, say


def test_without_a_terminal_a_line_every_half_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now, lines = [100.0], list[str]()
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(module, "say", lines.append)
    with progress_bar() as bar:
        task = bar.add_task("search", total=10, note="")
        for step in range(1, 9):
            bar.update(task, completed=step, note=f"loss {step}")
            now[0] += 10.0
    assert [line.split(",")[0] for line in lines] == ["search 4/10", "search 7/10"]
    assert lines[0].endswith("loss 4")


def test_a_line_has_no_empty_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    now, lines = [100.0], list[str]()
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(module, "say", lines.append)
    with progress_bar() as bar:
        bar.get_time = lambda: now[0]
        task = bar.add_task("search", total=10, note="")
        for done, note in ((0, ""), (0, ""), (5, "loss 1"), (6, "")):
            bar.update(task, completed=done, note=note)
            now[0] += 30.0
    assert lines == ["search 0/10", "search 5/10, loss 1", "search 6/10, ETA 0:02:00"], "4 steps are left, of 30 s each"


def test_followers_of_a_launcher_are_silent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    say("hello")
    assert progress_bar().disable
    monkeypatch.setenv("RANK", "0")
    assert not progress_bar().disable
    assert "hello" not in capsys.readouterr().err


def test_a_bar_that_leaves_no_line_behind_leaves_no_empty_one_without_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for _ in range(3):
        with progress_bar(transient=True) as bar:
            bar.update(bar.add_task("timing", total=1, note=""), advance=1)
    assert capsys.readouterr().err == ""


def test_steps_of_minutes_have_an_eta_too() -> None:
    now = [0.0]
    with progress_bar(transient=True) as bar:
        bar.get_time = lambda: now[0]
        task = bar.add_task("short trainings", total=8, note="")
        for _ in range(4):
            now[0] += 120.0
            bar.update(task, advance=1)
        assert bar.tasks[task].time_remaining == pytest.approx(4 * 120.0)
