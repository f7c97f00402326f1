"""The oracle notices every kind of broken promise, or the campaign would prove nothing."""

from dataclasses import replace

import pytest

from tests.campaign.case import Case, Ending
from tests.campaign.families import FAMILIES, draw_cases
from tests.campaign.oracle import Tree, find_faults

CASE = Case("some", "case", ("check",), must="be refused")
GOOD = Ending(2, "", "error: pipeline.toml has 1 mistake:\n  [data] x is not a setting\n", 0.1, False)
TREE: Tree = {"pipeline.toml": "a", "runs/default/record.json": "b"}


@pytest.mark.parametrize(
    ("ending", "after", "fault"),
    [
        (GOOD, TREE, None),
        (GOOD._replace(code=3), TREE, None),
        (GOOD._replace(code=0), TREE, "silent acceptance"),
        (GOOD._replace(code=1), TREE, "wrong code 1"),
        (GOOD._replace(code=-11), TREE, "wrong code -11"),
        (GOOD._replace(hung=True), TREE, "hang"),
        (GOOD._replace(stderr="Traceback (most recent call last):\nerror: x"), TREE, "traceback"),
        (GOOD._replace(stderr=""), TREE, "0 sentences"),
        (GOOD._replace(stderr=GOOD.stderr * 2), TREE, "2 sentences"),
        (GOOD._replace(stderr="error: short\n"), TREE, "not one sentence"),
        (GOOD._replace(stderr="error: a sentence of enough words\nand a second line"), TREE, "not one sentence"),
        (GOOD._replace(stderr="error: a sentence with \x1b[2J in it\n"), TREE, "control characters on the terminal"),
        (GOOD, {**TREE, "pipeline.toml": "c"}, "a refusal changed pipeline.toml"),
        (GOOD, {"pipeline.toml": "a"}, "a refusal changed runs/default/record.json"),
        (GOOD, {**TREE, "new": "n"}, "a refusal changed new"),
    ],
)
def test_every_broken_promise_has_a_name(ending: Ending, after: Tree, fault: str | None) -> None:
    assert list(find_faults(CASE, ending, TREE, after)) == ([] if fault is None else [fault])


def test_what_must_work_may_not_be_refused_and_a_stage_under_way_may_keep_its_state() -> None:
    assert list(find_faults(replace(CASE, must="be done"), GOOD, TREE, TREE)) == ["refused what is right"]
    state = {**TREE, "runs/default/retrain/checkpoint/000000-step-0-a.pt": "s"}
    assert not list(find_faults(replace(CASE, must="end well"), GOOD, TREE, state))
    assert list(find_faults(CASE, GOOD, TREE, state))


def test_a_seed_draws_the_same_cases_and_every_family_has_its_turn() -> None:
    first, second = ([str(case) for case in draw_cases(300, 5)] for _ in range(2))
    assert first == second and len(set(first)) > 200
    assert {line.split(":")[0] for line in first} == set(FAMILIES)
