"""Every example of docs/bilevel.md runs as printed and improves what it says it improves."""

import re
from pathlib import Path
from typing import Any

import pytest

from pipeline import bilevel

PAGE = (Path(__file__).parents[2] / "docs" / "bilevel.md").read_text(encoding="utf-8")
SECTIONS = [section.split("\n", 1) for section in PAGE.split("\n## ")[1:]]
EXAMPLES = [(title, code) for title, text in SECTIONS for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL)]


def test_all_examples_are_found() -> None:
    assert len(EXAMPLES) == PAGE.count("```python") == 5


@pytest.mark.parametrize(("title", "code"), EXAMPLES, ids=[title for title, _ in EXAMPLES])
def test_example(title: str, code: str, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    exec(compile(code, title, "exec"), names)
    assert names["after"] < 0.7 * names["before"], capsys.readouterr().out


def test_what_single_examples_claim() -> None:
    found = {title.split(" (")[0]: run(code) for title, code in EXAMPLES}
    decay = found["A penalty per coefficient"]["log_decay"]
    assert (decay[4:].mean() - decay[:4].mean()).item() > 1.0
    assert found["A weight per example"]["found"] > 0.8
    many = found["A lower level with many solutions"]
    assert [many["alpha"].item(), *many["y"][0].tolist()] == pytest.approx([1.0, 1.0, 1.0], abs=5e-3)


def run(code: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(code, names)
    return names


def test_the_table_holds_every_method_and_error() -> None:
    methods = [name for name in bilevel.__all__ if isinstance(getattr(bilevel, name), type)]
    named = [
        name
        for name in methods
        if issubclass(getattr(bilevel, name), bilevel.Method | bilevel.HypergradientError) and name != "Method"
    ]
    assert len(named) > 12
    assert [name for name in named if f"`{name}" not in PAGE] == []
