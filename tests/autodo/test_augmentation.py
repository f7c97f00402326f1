"""Every affine against a closed form, the warp against sampling written out, gradients against differences; float64."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from pipeline.autodo.augmentation import (
    KINDS,
    NUMBERS,
    Noise,
    augment,
    augmentation_of,
    draw_noise,
    effects_of,
    maps_of,
    start_augmentation,
    warp,
)
from tests.autodo.problem import randn

CPU = torch.device("cpu")
RANGES = [math.pi / 6, 0.9, 0.9, 0.3, 0.3, 0.5, 0.5]  # of the spec; a side is two half sides
IMAGE = randn(1, 2, 4, 4, seed=0)


def effects(**values: float) -> Tensor:
    row = [values.get(kind.replace(" ", "_"), 0.0) for kind in KINDS]
    return torch.tensor([row], dtype=torch.float64)


def fixed_noise(images: int) -> Noise:
    """Logistic numbers as what they stand for: the difference of two Gumbel noises."""
    uniform = torch.rand(2, images, len(KINDS), generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    first, second = -torch.log(-torch.log(uniform))
    return Noise(first - second, randn(images, len(KINDS), seed=4))


# the middle, twice as large: of the four fine pixels at a seam one is a quarter of its neighbour
MIDDLE = torch.tensor([[1, 15, 0, 0], [0, 15, 1, 0], [0, 1, 15, 0], [0, 0, 15, 1]], dtype=torch.float64) / 16
HALF = math.sqrt(0.5)
CLOSED: dict[str, tuple[Tensor, Callable[[Tensor], Tensor]]] = {
    # y points down: the output's right end shows what was at the bottom, which turns the picture to the left
    "a quarter turn": (effects(rotation=math.pi / 2), lambda x: torch.rot90(x, 1, (2, 3))),
    "one pixel to the left": (effects(x_translation=0.5), lambda x: x[..., [1, 2, 3, 3]]),
    "two pixels up": (effects(y_translation=1.0), lambda x: x[..., [2, 3, 3, 3], :]),
    "mirrored": (effects(x_scale=-2.0), lambda x: x.flip(3)),
    "upside down": (effects(y_scale=-2.0), lambda x: x.flip(2)),
    "the middle twice as wide": (effects(x_scale=-0.5), lambda x: x @ MIDDLE.T),
    "the middle twice as high": (effects(y_scale=-0.5), lambda x: MIDDLE @ x),
    "one column": (effects(x_scale=-1.0, x_translation=0.25), lambda x: x[..., [2, 2, 2, 2]]),
    "a quarter turn of two shears and scales": (
        effects(
            x_shear=-1.0, y_shear=1.0, rotation=math.pi / 4, x_scale=math.sqrt(0.5) - 1, y_scale=math.sqrt(0.5) - 1
        ),
        lambda x: torch.rot90(x, 1, (2, 3)),
    ),
}


@pytest.mark.parametrize("name", CLOSED)
def test_an_affine_does_what_its_name_says(name: str) -> None:
    moved, wanted = CLOSED[name]
    assert torch.allclose(warp(IMAGE, maps_of(moved)), wanted(IMAGE), rtol=0, atol=1e-12)


def by_hand(image: Tensor, place: Callable[[float, float], tuple[float, float]]) -> Tensor:
    """Bilinear sampling of an image of squares, each 4 × 4 fine pixels, at a place per fine pixel, as loops."""
    channels, size, _ = image.shape
    fine = torch.stack(
        [torch.stack([image[:, i // 4, j // 4] for j in range(4 * size)], 1) for i in range(4 * size)], 1
    )
    sums = torch.zeros(channels, size, size, dtype=torch.float64)
    for i in range(4 * size):
        for j in range(4 * size):
            x, y = place((2 * j + 1) / (4 * size) - 1, (2 * i + 1) / (4 * size) - 1)
            column, row = (min(max(((v + 1) * 4 * size - 1) / 2, 0.0), 4 * size - 1.0) for v in (x, y))
            left, top = int(column), int(row)
            right, bottom = min(left + 1, 4 * size - 1), min(top + 1, 4 * size - 1)
            a, b = column - left, row - top
            above = (1 - a) * fine[:, top, left] + a * fine[:, top, right]
            below = (1 - a) * fine[:, bottom, left] + a * fine[:, bottom, right]
            sums[:, i // 4, j // 4] += (1 - b) * above + b * below
    return sums / 16


@pytest.mark.parametrize("kind", [*KINDS, "all together"])
def test_the_warp_is_bilinear_sampling_at_the_place_that_the_kinds_say(kind: str) -> None:
    values = dict(zip(KINDS, [0.4, 0.3, -0.2, 0.25, -0.15, 0.3, -0.4], strict=True))
    if kind != "all together":
        values = {name: value if name == kind else 0.0 for name, value in values.items()}
    angle, x_move, y_move, x_shear, y_shear, x_scale, y_scale = values.values()

    def place(x: float, y: float) -> tuple[float, float]:
        x, y = (1 + x_scale) * x, (1 + y_scale) * y
        x, y = math.cos(angle) * x - math.sin(angle) * y, math.sin(angle) * x + math.cos(angle) * y
        x, y = x + x_shear * y, y_shear * x + y
        return x + x_move, y + y_move

    found = warp(IMAGE, maps_of(torch.tensor([list(values.values())], dtype=torch.float64)))
    assert torch.allclose(found[0], by_hand(IMAGE[0], place), rtol=0, atol=1e-12)
    assert not torch.allclose(found, IMAGE, rtol=0, atol=0.05)


def test_effects_are_hard_choices_times_magnitude_noise_and_range() -> None:
    raw, noise = randn(50, NUMBERS, seed=1), fixed_noise(50)
    chosen = raw[:, :7] + noise.logistic > 0
    assert 0.2 < float(chosen.double().mean()) < 0.8
    wanted = chosen * (1 / (1 + torch.exp(-raw[:, 7:]))) * noise.normal * torch.tensor(RANGES, dtype=torch.float64)
    found = effects_of(raw, noise)
    assert torch.allclose(found, wanted, rtol=0, atol=1e-14)
    assert bool((found[~chosen] == 0).all()), "the forward pass is hard"


def test_a_kind_is_chosen_as_often_as_its_probability_says() -> None:
    raw = torch.tensor([0.05, 0.2, 0.5, 0.8, 0.95, 0.2, 0.2]).logit().repeat(40_000, 2)
    noise = draw_noise(40_000, CPU, torch.Generator().manual_seed(0))
    shares = (effects_of(raw, noise) != 0).double().mean(0)
    assert shares.tolist() == pytest.approx([0.05, 0.2, 0.5, 0.8, 0.95, 0.2, 0.2], abs=0.01)
    assert float(noise.normal.std()) == pytest.approx(1.0, abs=0.01)
    assert float(noise.logistic.std()) == pytest.approx(math.pi / math.sqrt(3), abs=0.02)


def test_start_values() -> None:
    values = augmentation_of(start_augmentation(3, CPU))
    assert values.shape == (3, NUMBERS)
    assert values[2].tolist() == pytest.approx([0.2] * 7 + [0.5] * 7, abs=1e-6)


@pytest.mark.parametrize("size", [8, 224])
def test_nothing_happens_at_probability_zero(size: int) -> None:
    images, raw = randn(2, 3, size, size, seed=2), randn(2, NUMBERS, seed=3)
    raw[:, :7] = -math.inf
    noise = Noise(*(part[:2] for part in fixed_noise(2)))
    assert torch.allclose(augment(images, raw, noise), images, rtol=0, atol=1e-12)


def test_large_images_are_sampled_as_they_are() -> None:
    """The mean over fine pixels is for small images; a shift by a quarter of a pixel mixes two neighbours 3 : 1."""
    image = randn(1, 1, 224, 224, seed=5)
    found = warp(image, maps_of(effects(x_translation=0.25 * 2 / 224)))
    assert torch.allclose(found[..., :-1], 0.75 * image[..., :-1] + 0.25 * image[..., 1:], rtol=0, atol=1e-9)


def test_magnitudes_have_the_gradient_of_finite_differences() -> None:
    images, raw, noise = randn(3, 1, 5, 5, seed=6), randn(3, NUMBERS, seed=7), fixed_noise(3)
    raw[:, :7] = 3.0  # nearly all chosen
    weights = randn(3, 1, 5, 5, seed=8)
    found = gradient(images, raw, noise, weights)[:, 7:]
    for place in [(i, 7 + k) for i in range(3) for k in range(7)]:
        wanted = difference(lambda x: (augment(images, x, noise) * weights).sum(), raw, place)
        assert float(found[place[0], place[1] - 7]) == pytest.approx(wanted, rel=1e-5, abs=1e-8)
    assert int((found != 0).sum()) >= 18


def test_probabilities_have_the_gradient_of_the_soft_choice_at_the_hard_one() -> None:
    """d/dλ = dwarp/db · sigmoid′(λ + g): differences in b itself, which a choice of 0 or 1 hides."""
    images, raw, noise = randn(3, 1, 5, 5, seed=6), randn(3, NUMBERS, seed=9), fixed_noise(3)
    raw[:, :3] = 6.0  # turned and moved, or places lie on corners of the interpolation, where slopes jump
    weights = randn(3, 1, 5, 5, seed=8)
    hard = (raw[:, :7] + noise.logistic > 0).double()
    strength = torch.sigmoid(raw[:, 7:]) * noise.normal * torch.tensor(RANGES, dtype=torch.float64)
    soft = torch.sigmoid(raw[:, :7] + noise.logistic)
    found = gradient(images, raw, noise, weights)[:, :7]
    for place in [(i, k) for i in range(3) for k in range(7)]:
        slope = difference(lambda b: (warp(images, maps_of(b * strength)) * weights).sum(), hard, place)
        wanted = slope * float((soft * (1 - soft))[place])
        assert float(found[place]) == pytest.approx(wanted, rel=1e-5, abs=1e-8)
    assert int((hard == 0).sum()) > 3 and bool((found[hard == 0] != 0).all()), "what was not chosen learns too"


def gradient(images: Tensor, raw: Tensor, noise: Noise, weights: Tensor) -> Tensor:
    leaf = raw.clone().requires_grad_()
    (found,) = torch.autograd.grad((augment(images, leaf, noise) * weights).sum(), leaf)
    return found


def difference(of: Callable[[Tensor], Tensor], at: Tensor, place: tuple[int, int], step: float = 1e-7) -> float:
    ahead, behind = at.clone(), at.clone()
    ahead[place] += step
    behind[place] -= step
    return float(of(ahead) - of(behind)) / (2 * step)


def test_noise_depends_on_the_generator_alone() -> None:
    before = torch.random.get_rng_state()
    first, second = (draw_noise(4, CPU, torch.Generator().manual_seed(1)) for _ in range(2))
    assert torch.equal(first.logistic, second.logistic) and torch.equal(first.normal, second.normal)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert bool(torch.isfinite(draw_noise(100_000, CPU).logistic).all())
