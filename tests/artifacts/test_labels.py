from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.artifacts.labels import Labels
from pipeline.errors import UserError
from tests.deploy.conftest import LABELS


def test_one_readable_line_per_label(tmp_path: Path):
    Labels(LABELS).write(tmp_path / "labels.txt")
    lines = (tmp_path / "labels.txt").read_text(encoding="utf-8").split("\n")
    assert lines[:6] == ["a, b", "'c'", '"d"', "жук", r"two\nlines", r"back\\slash"]
    assert len(lines) == len(LABELS) + 1
    assert Labels.read(tmp_path / "labels.txt").labels == LABELS


@given(st.lists(st.text(st.one_of(st.sampled_from("\\nr\n\r\u2028\x85"), st.characters(codec="utf-8")))))
def test_any_text_survives(labels: list[str]):
    content = Labels(tuple(labels))._content()
    assert b"\r" not in content and content.count(b"\n") == len(labels)
    assert Labels._parse(content).labels == tuple(labels)


def test_a_label_that_is_no_text_is_refused_by_name(tmp_path: Path):
    with pytest.raises(UserError, match=r"udcff.*rename the class"):
        Labels(("ok", "bad\udcff")).write(tmp_path / "labels.txt")
