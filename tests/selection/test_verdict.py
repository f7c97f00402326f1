"""What a person is told of evidence that chance may explain."""

from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.selection.evidence import Standing
from pipeline.selection.verdict import describe_doubt


@pytest.mark.parametrize(
    ("low", "by_size", "trusts_search", "said"),
    [
        (0.1, False, False, ""),
        (-0.1, False, True, "what the search has judged decides"),
        (-0.1, False, False, "the choice may be one by chance"),
        (-0.6, True, False, "the largest that fits is taken"),
    ],
)
def test_doubt_follows_from_the_interval_and_from_who_decides(
    low: float, by_size: bool, trusts_search: bool, said: str
) -> None:
    evidence: Any = SimpleNamespace(goes_by_size=by_size, goes_by_search=trusts_search)
    found = describe_doubt(evidence, Standing("all together", 0.14, low, 0.6, None))
    assert found.endswith(said) and bool(found) is bool(said)
