"""What the page says of the guards of a search."""

from pipeline.report.sections.search import describe_guards


def test_a_quiet_search_says_so() -> None:
    (line,) = describe_guards([{"step": 8, "first_order_fallback": False}])
    assert line.startswith("No guard fired")


def test_steps_without_their_implicit_part_are_counted() -> None:
    entries = [{"step": step, "first_order_fallback": step > 8} for step in (8, 16, 24)]
    lines = list(describe_guards([{"step": 0, "hypergradient_check_cosine": 0.077}, *entries]))
    assert "0.08" in lines[0] and "unrelated" in lines[0]
    assert lines[1].startswith("2 of 3 architecture steps") and len(lines) == 2
