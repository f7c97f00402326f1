"""Batches: every image once, the same bits from any start, and augmentations that do what they say."""

import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torchvision.transforms.v2 import functional as reference

from pipeline.config import Augment, DataConfig
from pipeline.data import Batch, ImageSet, batches, count_batches, load_data
from pipeline.data.augment import _transform, cutout, erase, flip, shift
from pipeline.data.pool import Statistics, TensorImages
from pipeline.errors import UserError

AUGMENTS: tuple[Augment, ...] = get_args(Augment)


def image_set(count: int, channels: int = 1, size: int = 8) -> ImageSet:
    """Labels are the images' numbers, so that a batch tells which images it holds."""
    pixels = torch.randint(0, 256, (count, channels, size, size), generator=torch.Generator().manual_seed(0))
    middle = Statistics((0.5,) * channels, (0.25,) * channels)
    return ImageSet(TensorImages(pixels.to(torch.uint8)), torch.arange(count), torch.arange(count), lambda: middle)


def numbers(stream: Iterator[Batch]) -> list[list[int]]:
    return [batch.labels.tolist() for batch in stream]


def test_an_epoch_holds_every_image_once_as_floats() -> None:
    data = image_set(50)
    epoch = list(batches(data, 16, seed=3, epoch=1))
    labels = torch.cat([batch.labels for batch in epoch])
    assert [len(batch.labels) for batch in epoch] == [16, 16, 16, 2]
    assert sorted(labels.tolist()) == list(range(50)) and labels.tolist() != list(range(50))
    images = torch.cat([batch.images for batch in epoch])
    assert images.dtype == torch.float32
    assert images.equal(data.images.take(labels).to(torch.float32) / 255)


def test_the_order_depends_on_seed_and_epoch() -> None:
    data = image_set(40)
    orders = {(seed, epoch): numbers(batches(data, 40, seed=seed, epoch=epoch)) for seed in (0, 1) for epoch in (0, 1)}
    assert len({str(order) for order in orders.values()}) == 4
    assert numbers(batches(data, 16, seed=0, epoch=0, shuffle=False))[0] == list(range(16))
    assert (
        numbers(batches(data, 16, seed=0, epoch=0, drop_last=True)) == numbers(batches(data, 16, seed=0, epoch=0))[:2]
    )


@pytest.mark.parametrize("augment", AUGMENTS)
def test_any_batch_has_the_same_bits_from_any_start(augment: Augment) -> None:
    data = image_set(20, channels=3, size=16)
    whole = list(batches(data, 6, seed=5, epoch=2, augment=augment))
    torch.manual_seed(99)
    for start in range(5):
        rest = list(batches(data, 6, seed=5, epoch=2, augment=augment, start_batch=start))
        assert len(rest) == len(whole) - start
        for one, other in zip(whole[start:], rest, strict=True):
            assert one.images.equal(other.images) and one.labels.equal(other.labels)


@pytest.mark.parametrize("augment", AUGMENTS)
def test_workers_change_nothing(augment: Augment) -> None:
    data = image_set(20, channels=1, size=16)
    alone = list(batches(data, 6, seed=5, epoch=2, augment=augment, start_batch=1))
    helped = list(batches(data, 6, seed=5, epoch=2, augment=augment, start_batch=1, workers=2))
    assert len(alone) == len(helped) == 3
    for one, other in zip(alone, helped, strict=True):
        assert one.images.equal(other.images) and one.labels.equal(other.labels)


@pytest.mark.parametrize("augment", AUGMENTS)
@pytest.mark.parametrize("workers", [0, 1])
def test_global_generators_are_left_alone(augment: Augment, workers: int) -> None:
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    expected = random.random(), np.random.random(), torch.rand(1)
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    list(batches(image_set(8, 3, 16), 4, seed=0, epoch=0, augment=augment, workers=workers))
    assert (random.random(), np.random.random(), torch.rand(1)) == expected


@pytest.mark.parametrize("augment", [name for name in AUGMENTS if name != "none"])
def test_epochs_batches_and_ranks_are_augmented_differently(augment: Augment) -> None:
    one = ImageSet(image_set(1, 3, 16).images, torch.zeros(16, dtype=torch.int64), torch.zeros(16, dtype=torch.int64),
                   lambda: Statistics((0.5,) * 3, (0.25,) * 3))  # fmt: skip
    seen = [
        batch.images
        for epoch in range(2)
        for rank in range(2)
        for batch in batches(one, 4, seed=0, epoch=epoch, rank=rank, world=2, augment=augment)
    ]
    assert len(seen) == 8 and len({images.numpy().tobytes() for images in seen}) == 8
    assert len({image.numpy().tobytes() for image in torch.cat(seen)}) > 8
    assert all(float(images.min()) >= 0 and float(images.max()) <= 1 for images in seen)


@pytest.mark.parametrize("count", [1, 7, 24, 29])
def test_ranks_share_each_step_without_overlap(count: int) -> None:
    data = image_set(count)
    ranks = [numbers(batches(data, 4, seed=0, epoch=0, rank=rank, world=3)) for rank in range(3)]
    assert sorted(label for rank in ranks for batch in rank for label in batch) == list(range(count))
    together = numbers(batches(data, 12, seed=0, epoch=0))
    assert len(ranks[0]) == len(together) == count_batches(data, 4, world=3)
    for step, expected in enumerate(together):
        assert [label for rank in ranks for label in (rank[step] if step < len(rank) else [])] == expected


def test_ranks_step_together_when_the_last_batch_is_dropped() -> None:
    data = image_set(29)
    assert {len(list(batches(data, 4, seed=0, epoch=0, rank=rank, world=3, drop_last=True))) for rank in range(3)} == {
        2
    }
    with pytest.raises(UserError, match="lower batch_size"):
        batches(image_set(11), 4, seed=0, epoch=0, world=3, drop_last=True)


def test_shift_is_a_random_crop_of_the_padded_image() -> None:
    images = image_set(64, 3, 16).images.take(torch.arange(64))
    moved = shift(images, torch.Generator().manual_seed(0))
    crops = {
        (top, left): reference.crop(reference.pad(images, [2, 2, 2, 2]), top, left, 16, 16)
        for top in range(5)
        for left in range(5)
    }
    found = [{place for place, crop in crops.items() if crop[i].equal(moved[i])} for i in range(64)]
    assert all(len(places) == 1 for places in found)
    assert len(set.union(*found)) > 15


def test_flip_mirrors_about_half() -> None:
    images = image_set(200).images.take(torch.arange(200))
    turned = flip(images, torch.Generator().manual_seed(0))
    mirrored = [turned[i].equal(reference.horizontal_flip(images[i])) for i in range(200)]
    assert all(flag or turned[i].equal(images[i]) for i, flag in enumerate(mirrored))
    assert 70 < sum(mirrored) < 130


def painted(images: Tensor, fill: Tensor) -> Tensor:
    return (images == fill).all(1)


def test_cutout_paints_squares_of_half_the_side() -> None:
    images = torch.zeros(300, 3, 32, 32, dtype=torch.uint8)
    fill = torch.tensor([10, 20, 30], dtype=torch.uint8).view(3, 1, 1)
    holes = painted(cutout(images, fill, torch.Generator().manual_seed(0)), fill)
    for hole in holes:
        rows, columns = hole.any(1).sum(), hole.any(0).sum()
        assert int(hole.sum()) == int(rows * columns) and min(rows, columns) >= 8 and max(rows, columns) <= 16
    assert int(holes.sum((1, 2)).max()) == 256 and int(holes.sum((1, 2)).min()) < 200


def test_erasing_paints_with_the_fill_colour_and_nothing_else() -> None:
    images = torch.randint(0, 256, (64, 3, 32, 32), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    fill = torch.tensor([10, 20, 30], dtype=torch.uint8).view(3, 1, 1)
    erased = erase(images, fill, 4)
    changed = (erased != images).any(1)
    assert painted(erased, fill)[changed].all()
    assert 4 <= int(changed.any((1, 2)).sum()) <= 32


def test_random_crops_come_from_the_original_file(tmp_path: Path) -> None:
    """A fine checkerboard is grey at 8 pixels; only a crop out of the original can show black and white."""
    board = (np.indices((256, 256)).sum(0) // 16 % 2 * 255).astype(np.uint8)
    for label in "ab":
        (tmp_path / label).mkdir()
        for number in range(12):
            Image.fromarray(board).save(tmp_path / label / f"{number}.png")
    data = load_data(DataConfig(format="folder", path=".", resolution=8), tmp_path, 0)
    plain = torch.cat([batch.images for batch in batches(data.train_all, 8, seed=0, epoch=0)])
    crops = torch.cat([batch.images for batch in batches(data.train_all, 8, seed=0, epoch=0, augment="imagenet")])
    assert crops.shape == plain.shape
    assert float(crops.flatten(1).std(1).max()) > 2 * float(plain.flatten(1).std(1).max())


def test_every_operation_of_randaugment_runs_at_its_strongest() -> None:
    image = Image.fromarray(np.zeros((16, 16, 3), dtype=np.uint8))
    policy = next(step for step in copy.deepcopy(_transform("randaugment", 16)).transforms if hasattr(step, "ops"))
    assert len(policy.ops) > 10
    for operation in policy.ops:
        operation.prob, operation.magnitude = 1.0, 100
        assert operation(image).size == (16, 16)
