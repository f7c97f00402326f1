"""What `pipeline search` says before it starts."""

import pytest

from pipeline.budget.limits import Limit
from pipeline.resumable.history import Entry
from pipeline.space.costs import Costs
from pipeline.stages.search import _warn_of_short_search, describe_binding


@pytest.mark.parametrize(("steps", "warns"), [(37, True), (1999, True), (2000, False)])
def test_a_search_that_hardly_trains_its_operations_says_so(
    steps: int, warns: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    _warn_of_short_search(steps, epochs=40)
    said = " ".join(capsys.readouterr().err.split())
    assert (f"each operation takes part in about {steps:,} weight steps" in said) == warns
    assert ("[search] epochs = 2,163 is the least (2,000 weight steps), more is better" in said) == (steps == 37)


def test_a_finished_search_says_whether_its_budget_bound() -> None:
    limit = Limit("budget_ms", Costs(0.0, {}), 2.0, "ms")
    entries: list[Entry] = [{"step": 0}]
    entries += [{"step": n, "expected_ms": ms} for n, ms in enumerate([2.5, 2.1, 2.0, None])]
    assert describe_binding(entries, limit) == "the limit held it back in 2 of 4 architecture steps"
    assert "never held it back" in describe_binding(entries[3:], limit)
