"""What `pipeline search` says before it starts."""

import pytest

from pipeline.stages.search import _warn_of_short_search


@pytest.mark.parametrize(("steps", "warns"), [(37, True), (999, True), (1000, False)])
def test_a_search_that_hardly_trains_its_operations_says_so(
    steps: int, warns: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    _warn_of_short_search(steps, epochs=40)
    said = " ".join(capsys.readouterr().err.split())
    assert (f"each operation takes part in about {steps:,} weight steps" in said) == warns
    assert ("[search] epochs = 1,082 is the least (1,000 weight steps), more is better" in said) == (steps == 37)
