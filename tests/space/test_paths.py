"""Sampled paths: their chances, the mixture among them, and what is left alone."""

import torch

from pipeline.space.paths import draw_paths
from pipeline.space.skeleton import Skeleton
from pipeline.space.spaces import space_named
from pipeline.space.supernet import Supernet
from tests.space.plain import PlainSupernet
from tests.space.test_supernet import one_hot, random_genotype

SKELETON = Skeleton("mobile", cells=22, channels=8, resolution=16, classes=3)
MOBILE = space_named("mobile")


def random_weights(seed: int = 0) -> list[torch.Tensor]:
    torch.manual_seed(seed)
    return [torch.randn(1, len(kind.operations), dtype=torch.float64).softmax(-1) for kind in MOBILE.kinds]


def test_two_operations_are_drawn_with_the_chances_of_their_weights() -> None:
    """Without replacement: p_i + Σ_{j≠i} p_j · p_i / (1 − p_j)."""
    weights, draws = random_weights(), 4000
    counts = [torch.zeros_like(weight) for weight in weights]
    for seed in range(draws):
        paths = draw_paths(MOBILE, weights, seed)
        assert paths is not None
        counts = [count + mask for count, mask in zip(counts, paths, strict=True)]
    for p, count in zip(weights, counts, strict=True):
        second = (p / (1 - p)).sum() - p / (1 - p)
        expected = p * (1 + second)
        assert count.sum() == 2 * draws
        torch.testing.assert_close(expected.sum(), torch.tensor(2.0, dtype=torch.float64))
        sigma = (expected * (1 - expected) / draws).sqrt()
        assert ((count / draws - expected).abs() < 5 * sigma).all()


def test_the_seed_decides() -> None:
    weights = random_weights()
    first, again, other = (draw_paths(MOBILE, weights, seed) for seed in (1, 1, 2))
    assert first is not None and again is not None and other is not None
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(first, other, strict=True))


def test_spaces_that_run_everything_draw_nothing() -> None:
    for name in ("darts", "nasbench201", "nasbench-macro"):
        space = space_named(name)
        weights = [torch.full((len(k.edges), len(k.operations)), 0.1) for k in space.kinds]
        assert draw_paths(space, weights, 0) is None


def test_a_sampled_step_is_the_mixture_among_the_drawn_operations() -> None:
    """Output and all gradients are those of running everything with weights that add up to 1 among them."""
    torch.manual_seed(0)
    supernet = Supernet(SKELETON).double()
    plain = PlainSupernet(supernet).double()
    x = torch.randn(3, 3, 16, 16, dtype=torch.float64)
    weights = [weight.requires_grad_() for weight in random_weights()]
    paths = draw_paths(MOBILE, weights, 5)
    assert paths is not None
    among = [w.where(on, 0.0) / w[on].sum() for w, on in zip(weights, paths, strict=True)]
    outputs = supernet(x, weights, paths), plain(x, among)
    torch.testing.assert_close(*outputs, rtol=0, atol=1e-10)
    first, second = (torch.autograd.grad(output.square().sum(), weights) for output in outputs)
    for ours, theirs in zip(first, second, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-10)


def test_what_is_not_drawn_is_left_alone() -> None:
    supernet, weights = Supernet(SKELETON), [weight.float() for weight in random_weights()]
    paths = draw_paths(MOBILE, weights, 3)
    assert paths is not None
    before = {name: buffer.clone() for name, buffer in supernet.named_buffers()}
    loss = supernet(torch.randn(2, 3, 16, 16), weights, paths).square().sum()
    names = [name for name, _ in supernet.named_parameters()]
    gradients = torch.autograd.grad(loss, list(supernet.parameters()), allow_unused=True)
    used = {name for name, gradient in zip(names, gradients, strict=True) if gradient is not None}
    moved = {name for name, buffer in supernet.named_buffers() if not torch.equal(buffer, before[name])}
    for index, (kind, mask) in enumerate(zip(MOBILE.kinds, paths, strict=True), start=1):
        drawn = {o for o, on in zip(kind.operations, mask[0], strict=True) if on and o != "skip"}
        trained, counted = (
            {name.split(".")[5] for name in touched if name.startswith(f"parts.{index}.")} for touched in (used, moved)
        )
        assert counted == drawn
        assert trained == ({"mb1_k7_se" if index == 1 else "mb6_k7_se"} if drawn else set()), "which holds all weights"


def test_one_hot_paths_are_the_network() -> None:
    torch.manual_seed(0)
    supernet = Supernet(SKELETON).double()
    x = torch.randn(3, 3, 16, 16, dtype=torch.float64)
    weights = one_hot(MOBILE, random_genotype(MOBILE, 1))
    paths = draw_paths(MOBILE, weights, 0)
    assert paths is not None
    assert [int(mask.sum()) for mask in paths] == [1] * 22
    torch.testing.assert_close(supernet(x, weights, paths), supernet(x, weights), rtol=0, atol=1e-10)
