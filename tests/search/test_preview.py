"""The dry run: sizes are those of the search, and the time is that of its second cycle, scaled up."""

from itertools import count
from pathlib import Path

from pipeline.search.preview import preview_search
from tests.search.problem import make_search


def test_size_and_time_of_a_search(tmp_path: Path) -> None:
    search = make_search(tmp_path)
    total, cycle = search.total_steps, search.inner_steps
    ticks = (float(n * n) for n in count())  # 0 1 4 9: the first cycle takes 1 s, the second 5 s
    preview = preview_search(search, lambda: next(ticks))
    assert search.state.step == 2 * cycle
    assert preview.cycle_s == 5.0
    assert preview.eta_s == 5.0 * total / cycle
    assert preview.weights == sum(p.numel() for p in search.state.supernet.parameters())
    assert preview.architecture_steps == total // cycle
    assert "architecture parameters" in preview.lines()[0]


def test_a_long_cycle_is_timed_once(tmp_path: Path) -> None:
    search = make_search(tmp_path)
    ticks = (20.0 * n for n in count())
    assert preview_search(search, lambda: next(ticks)).cycle_s == 20.0
    assert search.state.step == search.inner_steps
