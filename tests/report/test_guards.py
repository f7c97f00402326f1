"""What the page says of the guards of a search."""

import pytest

from pipeline.report.sections.search import describe_guards


def test_a_quiet_search_says_so() -> None:
    (line,) = describe_guards([{"step": 8, "first_order_fallback": False}])
    assert line.startswith("No guard fired")


def test_steps_without_their_implicit_part_are_counted() -> None:
    entries = [{"step": step, "first_order_fallback": step > 8} for step in (8, 16, 24)]
    lines = list(describe_guards([{"step": 0, "hypergradient_check_cosine": 0.077}, *entries]))
    assert "0.08" in lines[0] and "unrelated" in lines[0]
    assert lines[1].startswith("2 of 3 architecture steps") and len(lines) == 2


@pytest.mark.parametrize(("steps", "told"), [((16,), "Resumed once, from step 16."), ((8, 24), "Resumed 2 times")])
def test_a_search_that_was_interrupted_says_how_often(steps: tuple[int, ...], told: str) -> None:
    assert any(line.startswith(told) for line in describe_guards([{"resumed_from_step": step} for step in steps]))
