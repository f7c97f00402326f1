"""Splits: disjoint, complete, stratified, and the same every time."""

from contextlib import nullcontext

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.data.pool import Given
from pipeline.data.splits import cut, require_every_class, split
from pipeline.errors import UserError


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 30), min_size=2, max_size=12),
    share=st.floats(0.05, 0.9),
    seed=st.integers(0, 2**31),
)
def test_a_cut_is_a_stratified_partition(sizes: list[int], share: float, seed: int) -> None:
    targets = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    targets = targets[torch.randperm(len(targets), generator=torch.Generator().manual_seed(seed))]
    numbers = torch.arange(len(targets))
    kept, taken = cut(numbers, targets, share, seed)
    assert sorted(kept.tolist() + taken.tolist()) == numbers.tolist()
    for label, size in enumerate(sizes):
        got = int((targets[taken] == label).sum())
        assert got <= size - 1
        assert got >= min(1, size - 1)
        assert abs(got - share * size) <= 1.0 + 1e-9 or got in (1, size - 1)


def test_rounding_is_carried_over_many_small_classes() -> None:
    targets = torch.arange(100).repeat(5)
    kept, taken = cut(torch.arange(500), targets, 0.5, 0)
    assert (len(kept), len(taken)) == (250, 250)
    assert set(torch.bincount(targets[taken]).tolist()) == {2, 3}


def test_small_classes_do_not_take_from_a_large_one() -> None:
    targets = torch.cat([torch.arange(100).repeat(2), torch.full((1000,), 100)])
    taken = cut(torch.arange(len(targets)), targets, 0.2, 0).taken
    assert abs(int((targets[taken] == 100).sum()) - 200) <= 1


def test_the_seed_moves_validation_and_never_test() -> None:
    targets = torch.arange(10).repeat(20)
    first, again, other = (split(targets, Given(200, 0, 0), 0.5, 0.2, seed) for seed in (0, 0, 1))
    assert first.train.equal(again.train) and first.validation.equal(again.validation)
    assert first.test.equal(other.test)
    assert not first.validation.equal(other.validation)
    assert [len(part) for part in first] == [80, 80, 40]
    assert torch.cat(list(first)).sort().values.equal(torch.arange(200))
    assert first.train_all.equal(torch.cat([first.train, first.validation]).sort().values)


def test_given_parts_are_kept() -> None:
    targets = torch.arange(2).repeat(50)
    parts = split(targets, Given(60, 10, 30), 0.5, 0.2, 3)
    assert [part.tolist() for part in parts] == [list(range(60)), list(range(60, 70)), list(range(70, 100))]


def test_the_split_is_pinned() -> None:
    """A run of last year must find its images again: these numbers may never change."""
    parts = split(torch.arange(2).repeat(6), Given(12, 0, 0), 0.5, 0.3, 7)
    assert parts.test.tolist() == [0, 1, 7, 10]
    assert parts.validation.tolist() == [2, 3, 4, 5]


@pytest.mark.parametrize(("validation_share", "test_share"), [(0.0, 0.2), (0.5, 0.0)])
def test_a_share_of_nothing_is_refused(validation_share: float, test_share: float) -> None:
    with pytest.raises(UserError, match=r"(validation|test)_share = 0"):
        split(torch.arange(2).repeat(20), Given(40, 0, 0), validation_share, test_share, 0)


@pytest.mark.parametrize(
    ("sizes", "test", "shares", "named"),
    [
        ([1, 1], 0, (0.5, 0.2), r"'a' \(1\), 'b' \(1\); give each 3 or more images"),
        ([9, 1], 0, (0.5, 0.2), r"no validation image .* of photos: 'b' \(1\); give each 3 or more images"),
        ([9, 2], 0, (0.5, 0.2), r"no validation image .* 'b' \(2\); give each 3 or more images"),
        ([9, 3], 0, (0.5, 0.2), None),
        ([9, 9], 0, (0.5, 0.999), "lower .data. test_share"),
        ([9, 1], 4, (0.5, 0.2), r"'b' \(1\); give each 2 or more images"),
        ([9, 2], 4, (0.5, 0.2), None),
        ([9, 1, 1, 1, 1, 1, 1, 1], 0, (0.5, 0.2), r"'f' \(1\) and 2 more;"),
    ],
)
def test_a_class_that_a_cut_leaves_out_is_named(
    sizes: list[int], test: int, shares: tuple[float, float], named: str | None
) -> None:
    """One image cannot be trained on and tested; a test set that comes with the data may lack a class."""
    train = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    targets, brought = torch.cat([train, torch.zeros(test, dtype=torch.long)]), Given(len(train), 0, test)
    labels = tuple("abcdefgh"[: len(sizes)])
    with nullcontext() if named is None else pytest.raises(UserError, match=named):
        require_every_class(split(targets, brought, *shares, 0), targets, brought, labels, "photos")
