"""The log follows the run: cut back on resume, torn lines dropped, the same numbers in TensorBoard."""

import json
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from pipeline.resumable.history import History, read_history


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_entries_after_the_resumed_step_are_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    with History(path) as history:
        for step in range(1, 5):
            history.append(step, loss=step / 2)
    with path.open("a") as file:
        file.write('{"step": 5, "lo')  # torn by a power cut
    assert [entry["step"] for entry in read_history(path)] == [1, 2, 3, 4]
    with History(path, resumed_step=2) as history:
        assert [entry["step"] for entry in history.entries] == [1, 2]
        history.append(3, loss=float("nan"), event="resumed")
        history.cut_back(1)
        history.append(2, loss=0.25)
    assert lines(path) == [{"step": 1, "loss": 0.5}, {"step": 2, "loss": 0.25}]


def test_a_new_run_starts_an_empty_log_and_nan_becomes_null(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text('{"step": 0, "loss": 9}\n')
    with History(path) as history:
        history.append(1, loss=float("inf"))
    assert lines(path) == [{"step": 1, "loss": None}]


def test_ranks_that_do_not_write_leave_the_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    with History(path, writes=False) as history:
        history.append(1, loss=1.0)
    assert history.entries == [{"step": 1, "loss": 1.0}] and not path.exists()


def test_numbers_reach_tensorboard(tmp_path: Path) -> None:
    with History(tmp_path / "history.jsonl", tensorboard=tmp_path / "board") as history:
        history.append(1, loss=0.5, event="started")
        history.append(2, loss=0.25)
    board = EventAccumulator(str(tmp_path / "board"))
    board.Reload()
    assert [(event.step, event.value) for event in board.Scalars("loss")] == [(1, 0.5), (2, 0.25)]
