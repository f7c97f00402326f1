"""Every link between pages leads to a file that is there, and its anchor to a heading of that file."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    page for folder in ("", "docs", "benchmarks", "benchmarks/results") for page in (ROOT / folder).glob("*.md")
)


def links(text: str) -> Iterator[str]:
    """The targets of links and pictures that stay in the repository."""
    found = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    return (target for target in found if not target.startswith(("http:", "https:")))


def anchors(page: Path) -> set[str]:
    """What the headings of a page are linked by: lower case, words joined by hyphens, punctuation left out."""
    headings = re.findall(r"(?m)^#+ (.*)$", page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(page: Path) -> list[str]:
    wrong = []
    for target in links(page.read_text(encoding="utf-8")):
        path, _, anchor = target.partition("#")
        goal = (page.parent / path) if path else page
        if not goal.exists() or (anchor and anchor not in anchors(goal)):
            wrong.append(target)
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_a_wrong_file_and_a_wrong_anchor_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# What is *here*, then?\n[a](#what-is-here-then) [b](#gone) [c](gone.md) [d](page.md)", encoding="utf-8"
    )
    assert broken(page) == ["#gone", "gone.md"]
