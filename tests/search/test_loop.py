"""The loop around the search: its history, what it resumes, and how it ends where a step goes wrong."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from pipeline.errors import UserError
from pipeline.resumable.history import read_history
from pipeline.search.architecture import SearchDiverged
from pipeline.search.guards import Gap
from pipeline.search.loop import run_search
from tests.search.problem import files, make_search


def test_run_search_writes_a_history_and_resumes(tmp_path: Path) -> None:
    whole = run_search(make_search(tmp_path), files(tmp_path / "whole"), "hash", 0.0)
    interrupted = make_search(tmp_path)
    real, calls = interrupted.advance, 0

    def die_after_seven() -> Any:
        nonlocal calls
        calls += 1
        if calls > 7:
            raise RuntimeError("killed")
        return real()

    interrupted.advance = die_after_seven  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="killed"):
        run_search(interrupted, files(tmp_path / "resumed"), "hash", 0.0)
    resumed = run_search(make_search(tmp_path), files(tmp_path / "resumed"), "hash", 0.0)
    assert all(torch.equal(a, b) for a, b in zip(whole.alphas, resumed.alphas, strict=True))
    entries = read_history(tmp_path / "resumed" / "history.jsonl")
    assert [e["resumed_from_step"] for e in entries if "resumed_from_step" in e] == [7]
    steps = [e["step"] for e in entries if "validation_loss" in e]
    assert steps == [e["step"] for e in read_history(tmp_path / "whole" / "history.jsonl") if "validation_loss" in e]
    guards = [e for e in entries if "discretization_gap" in e]
    assert len(guards) == 3 and {
        "parameter_free_share",
        "costliest_share",
        "margin_min",
        "entropy",
        "expected_MACs",
    } <= {key for e in entries for key in e}


def test_guards_look_at_so_many_epochs_only_and_at_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On few images an epoch takes no longer than a look: searches of a thousand epochs took twice their steps."""
    monkeypatch.setattr("pipeline.search.engine.MOST_LOOKS", 3)
    search, looked, gap = make_search(tmp_path, epochs=8), list[int](), Gap(1.0, 0.5, 0.5)

    def look(*given: Any) -> Gap:
        looked.append(len(list(given[3])))
        return gap

    monkeypatch.setattr("pipeline.search.engine.measure_gap", look)
    run_search(search, files(tmp_path), "hash", 1e9)
    assert [e["epoch"] for e in read_history(tmp_path / "history.jsonl") if "discretization_gap" in e] == [2, 5, 7]
    networks = 1 + max(1, min(4, search.group_size))
    assert len(looked) == 3 and search.looked_batches == sum(looked) * networks


def test_a_signal_before_the_first_step_ends_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of the hypergradient is long and leaves nothing to save: no step is waited for."""
    search = make_search(tmp_path)
    monkeypatch.setattr(search, "check_hypergradient", lambda: os.kill(os.getpid(), signal.SIGINT))
    monkeypatch.setattr(search, "advance", lambda: pytest.fail("it stepped"))
    with pytest.raises(KeyboardInterrupt):
        run_search(search, files(tmp_path), "hash", 0.0)
    assert not list(tmp_path.rglob("*.pt"))


def test_a_checkpoint_of_another_configuration_is_refused(tmp_path: Path) -> None:
    search = make_search(tmp_path)
    search.advance()
    from pipeline.resumable.checkpoint import Checkpoints

    Checkpoints(files(tmp_path).checkpoints, "one").save(search.state.step, search.state.record())
    with pytest.raises(UserError, match="another configuration"):
        run_search(make_search(tmp_path), files(tmp_path), "other", 0.0)


def test_a_solve_that_misses_gives_way_to_the_first_order_gradient(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings: dict[str, Any] = {"seed": 3, "weight_lr": 0.1, "weight_decay": 0.2, "epochs": 1}
    missed, solved = make_search(tmp_path, gamma=0.1, **settings), make_search(tmp_path, gamma=1e-3, **settings)
    direct = make_search(tmp_path, method="first-order", **settings)
    steps = [[search.advance() for _ in range(2)][-1] for search in (missed, solved, direct)]
    found = [step.gradient for step in steps if step is not None]
    assert found[0].diagnostics.residual is not None and found[0].diagnostics.residual >= 1
    assert [one.is_first_order for one in found] == [True, False, False]
    assert torch.equal(found[0].gradient[0], found[2].gradient[0])
    assert not torch.allclose(found[1].gradient[0], found[2].gradient[0], rtol=1e-4)
    run_search(missed, files(tmp_path), "hash", 1e9)
    entries = read_history(tmp_path / "history.jsonl")
    fallbacks = 1 + sum(entry.get("first_order_fallback", 0) for entry in entries)  # one before the history began
    assert [e["first_order_fallbacks"] for e in entries if "first_order_fallbacks" in e] == [fallbacks]
    said = capsys.readouterr().err
    assert f"{fallbacks} of {missed.state.alpha_step} architecture steps took the first-order" in said.replace(
        "\n", " "
    )


def test_divergence_halves_gamma_then_stops_with_the_best_architecture(tmp_path: Path) -> None:
    search = make_search(tmp_path, gamma=100.0, neumann_terms=3)
    search.advance()
    with pytest.raises(SearchDiverged, match="5 times in a row"):
        search.advance()
    mild = make_search(tmp_path, gamma=0.05, epochs=2)
    while not mild.at_epoch_end or mild.state.step == 0:
        mild.advance()
    mild.end_epoch()
    assert mild.state.best is not None
    object.__setattr__(mild.config, "gamma", 1e12)
    result = run_search(mild, files(tmp_path), "hash", 1e9)
    assert result.stopped_early is not None and "5 times" in result.stopped_early
    assert all(torch.equal(a, b) for a, b in zip(result.alphas, mild.state.best.alphas, strict=True))
