"""What `pipeline search` says before it starts."""

from dataclasses import replace

import pytest

from pipeline.budget.limits import Limit
from pipeline.budget.targets import Demands, make_targets
from pipeline.resumable.history import Entry
from pipeline.space.costs import Costs
from pipeline.stages.search import _span, _warn_of_short_search, describe_binding, describe_spans
from tests.selection.fakes import DARTS, SMALL, FakePredictor


@pytest.mark.parametrize(("steps", "warns"), [(37, True), (1999, True), (2000, False)])
def test_a_search_that_hardly_trains_its_operations_says_so(
    steps: int, warns: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    _warn_of_short_search(steps, epochs=40)
    said = " ".join(capsys.readouterr().err.split())
    assert (f"each operation takes part in about {steps:,} weight steps" in said) == warns
    assert ("[search] epochs = 2,200 is the least (2,000 weight steps), more is better" in said) == (steps == 37)


@pytest.mark.parametrize(
    ("budget_ms", "channels", "binds", "goes_by"),
    [(1e6, (8,), False, None), (1e6, (8, 16), False, 16), (4.0, (8,), False, None), (4.0, (8, 16), True, 16)],
)
def test_a_limit_that_binds_in_one_of_several_sizes_is_not_said_to_be_idle(
    budget_ms: float, channels: tuple[int, ...], binds: bool, goes_by: int | None
) -> None:
    """Of 8 channels the slowest take 2.9 ms, of 16 they take 8.5."""
    targets = make_targets([replace(SMALL, channels=each) for each in channels], FakePredictor)
    spans = [_span(DARTS, target, Demands(budget_ms, 50)) for target in targets]
    said = "\n".join(describe_spans(spans))
    assert said.count("networks of 3 cells × ") == len(channels) + (goes_by is not None)
    assert ("the limit does not bind" in said) is not binds
    assert goes_by is None or f"the search goes by networks of 3 cells × {goes_by} channels" in said


@pytest.mark.parametrize(("budget_ms", "channels"), [(5.0, 16), (16 * 1.6, 32), (64 * 1.6, 64), (1.6 * 64.8, 64)])
def test_a_limit_that_does_not_bind_comes_with_a_width_that_may_use_it(budget_ms: float, channels: int) -> None:
    """8 channels take 1.6 ms in the middle, the square of the width as many times that."""
    (target,) = make_targets([replace(SMALL, channels=8)], FakePredictor)
    span = _span(DARTS, target, Demands(budget_ms, 50))._replace(fastest_ms=0.4, slowest_ms=2.8)
    assert span.wider_channels == channels
    assert f"about {channels} may use it" in "\n".join(describe_spans([span]))


def test_a_finished_search_says_whether_its_budget_bound() -> None:
    limit = Limit("budget_ms", Costs(0.0, {}), 2.0, "ms")
    entries: list[Entry] = [{"step": 0}]
    entries += [{"step": n, "expected_ms": ms} for n, ms in enumerate([2.5, 2.1, 2.0, None])]
    assert describe_binding(entries, limit, 4.0) == "the limit held it back in 2 of 4 architecture steps"
    assert "raise [target] cells or channels" in describe_binding(entries[3:], limit, 1.9)
    some_take_longer = describe_binding(entries[3:], limit, 2.1)
    assert "always kept it" in some_take_longer and "raise" not in some_take_longer
