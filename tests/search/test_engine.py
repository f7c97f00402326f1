"""The search itself: the paper's algorithm step by step, every method, resumption to the bit."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import torch

from pipeline.bilevel import Neumann, hypergradient
from pipeline.errors import UserError
from pipeline.search.architecture import SearchDiverged
from pipeline.search_config import Method
from pipeline.space.score import edge_weights
from tests.search.problem import SEARCH, finish, make_search


def test_one_round_is_algorithm_1(tmp_path: Path) -> None:
    """T = 2 SGD steps and one Adam step along eq. 9, repeated here with plain torch on a second copy."""
    search, oracle = (
        make_search(tmp_path, share=0.2, seed=3, weight_lr=0.1, weight_decay=0.2, gamma=1e-3) for _ in range(2)
    )
    search.advance()
    report = search.advance()
    assert report is not None and not report.gradient.is_first_order

    losses, state = oracle.losses, oracle.state
    weights = list(losses.supernet.parameters())
    optimizer = torch.optim.SGD(weights, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.2)
    for step in range(2):
        batch = losses.prepare(oracle.train.batch(step))
        rate = 0.001 + 0.099 * (1 + torch.cos(torch.tensor(torch.pi * step / oracle.total_steps))) / 2
        optimizer.param_groups[0]["lr"] = float(rate)
        optimizer.zero_grad()
        losses.cross_entropy(batch, [a.detach() for a in state.alphas]).backward()
        torch.nn.utils.clip_grad_norm_(weights, 5.0)
        optimizer.step()
    validation = losses.prepare(oracle.validation.batch(0))
    gradient = hypergradient(
        lambda w, a: losses.cross_entropy(batch, state.alphas) + 0.1 * sum((x**2).sum() for x in weights),
        lambda w, a: oracle.constraint.penalize(losses.cross_entropy(validation, state.alphas), state.alphas, 1.0),
        weights,
        state.alphas,
        Neumann(1e-3, 1, "finite_difference", step=0.1),
        buffers=list(losses.supernet.buffers()),
    )
    for part, added, theirs in zip(report.gradient.gradient, report.gradient.penalty, gradient, strict=True):
        assert added.any()
        torch.testing.assert_close(part + added, theirs, rtol=1e-3, atol=1e-5)
    adam = torch.optim.Adam(state.alphas, lr=0.05, betas=(0.5, 0.999), weight_decay=1e-3)
    for alpha, part in zip(state.alphas, gradient, strict=True):
        alpha.grad = part
    adam.step()
    for ours, theirs in zip(search.state.alphas, state.alphas, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("method", get_args(Method))
def test_every_method_runs_and_moves_the_architecture(method: str, tmp_path: Path) -> None:
    search = make_search(tmp_path, method=method, epochs=1, weight_lr=0.05)
    before = [alpha.detach().clone() for alpha in [*search.state.alphas, *search.state.unpenalized]]
    after = finish(search)
    assert all(torch.isfinite(alpha).all() for alpha in after)
    assert all(not torch.equal(b, a) for b, a in zip(before, after, strict=True))
    assert search.inner_steps == (1 if method == "darts" else 2)


@pytest.mark.parametrize(("method", "paths"), [("idarts", "mixture"), ("bvfim", "mixture"), ("idarts", "fair")])
def test_restored_from_any_step_it_ends_with_the_same_bits(method: str, paths: str, tmp_path: Path) -> None:
    expected = finish(make_search(tmp_path, seed=3, method=method, paths=paths))
    for stop in (1, 2, 5, 8, 11):
        first = make_search(tmp_path, seed=3, method=method, paths=paths)
        for _ in range(stop):
            first.advance()
            if first.at_epoch_end:
                first.end_epoch()
        record = first.state.record()
        second = make_search(tmp_path, seed=3, method=method, paths=paths)
        second.state.restore(record)
        for ours, theirs in zip(finish(second), expected, strict=True):
            assert torch.equal(ours, theirs)
        assert len(second.state.network_losses) == (second.state.alpha_step if paths == "fair" else 0)


def test_an_architecture_step_judges_by_several_validation_batches(tmp_path: Path) -> None:
    """By plain torch, on the batches that are next: 0 and 1, then 2 and 3."""
    settings: dict[str, Any] = {"method": "first-order", "validation_batches": 2, "inner_steps": 1, "penalty": 0.0}
    search, oracle = (make_search(tmp_path, **settings) for _ in range(2))
    for positions in ((0, 1), (2, 3)):
        report = search.advance()
        oracle._step_weights(oracle.losses.prepare(oracle.train.batch(oracle.state.step)), oracle._weight_lr())
        oracle.state.step += 1
        batches = [oracle.losses.prepare(oracle.validation.batch(position)) for position in positions]
        images, labels = torch.cat([b.images for b in batches]), torch.cat([b.labels for b in batches])
        weights = edge_weights(oracle.state.alphas, oracle.constraint.prices, oracle.constraint.scale)
        loss = torch.nn.functional.cross_entropy(oracle.losses.supernet(images, weights), labels)
        assert report is not None and report.validation_loss == pytest.approx(loss.item(), rel=1e-5)
        (expected,) = torch.autograd.grad(loss, oracle.state.alphas)
        torch.testing.assert_close(report.gradient.gradient[0], expected, rtol=1e-3, atol=1e-6)
        oracle.state.alphas[0].data.copy_(search.state.alphas[0])


def test_the_supernet_sees_images_at_a_resolution_of_its_own(tmp_path: Path) -> None:
    """Each pixel the mean of four; the limit is still that of the deployed network."""
    small, whole = make_search(tmp_path, skeleton=replace(SEARCH, resolution=4)), make_search(tmp_path)
    seen, given = (search.losses.prepare(search.train.batch(0)).images for search in (small, whole))
    torch.testing.assert_close(seen, torch.nn.functional.avg_pool2d(given, 2), rtol=1e-5, atol=1e-6)
    assert small.constraint.limits[0].at_most == whole.constraint.limits[0].at_most
    assert [small.advance() for _ in range(2)][-1] is not None


def test_seeds_matter(tmp_path: Path) -> None:
    one, other = finish(make_search(tmp_path, seed=1, epochs=1)), finish(make_search(tmp_path, seed=2, epochs=1))
    assert not torch.equal(one[0], other[0])


def test_a_nan_loss_stops_with_a_sentence(tmp_path: Path) -> None:
    search = make_search(tmp_path)
    with torch.no_grad():
        next(search.losses.supernet.parameters()).fill_(torch.nan)
    with pytest.raises(SearchDiverged, match="weight_lr"):
        search.advance()


def test_fewer_images_than_a_batch(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="batch_size"):
        make_search(tmp_path, batch_size=500)


@pytest.mark.parametrize(
    ("settings", "refused"),
    [
        ({"inner_steps": 0}, False),
        ({"inner_steps": 1}, True),
        ({"inner_steps": 0, "method": "darts"}, False),
        ({"inner_steps": 1, "method": "darts"}, False),
        ({"inner_steps": 0, "warmup_share": 0.99}, False),
    ],
)
def test_more_inner_steps_than_there_are_steps_are_refused(
    settings: dict[str, Any], refused: bool, tmp_path: Path
) -> None:
    """`inner_steps` here counts from the number of all steps; DARTS takes one, whatever it is set to."""
    steps = make_search(tmp_path, warmup_share=0.0).total_steps
    search = make_search(tmp_path, **{"warmup_share": 0.0, **settings, "inner_steps": steps + settings["inner_steps"]})
    with pytest.raises(UserError, match=rf"{steps} steps.*inner_steps") if refused else nullcontext():
        search.require_steps()
    if not refused:
        finish(search)
        assert any(alpha.abs().sum() > 0 for alpha in search.state.alphas)


def test_a_step_without_the_penalty_is_that_of_a_search_without_a_budget(tmp_path: Path) -> None:
    tight, free = (make_search(tmp_path, share=share, penalty=20.0, warmup_share=0.0) for share in (0.1, 9.0))
    for search in (tight, free):
        while search.advance() is None:
            pass
    (penalized,), (plain,) = tight.state.alphas, tight.state.unpenalized
    assert not torch.allclose(penalized, plain, atol=0.05)
    torch.testing.assert_close(plain, free.state.unpenalized[0])
    assert torch.equal(free.state.alphas[0], free.state.unpenalized[0])


@pytest.mark.parametrize(("epochs", "expected"), [(3, 0.1), (400, None)])
def test_the_rate_of_alpha_follows_from_the_steps_it_has(tmp_path: Path, epochs: int, expected: float | None) -> None:
    """Over the whole search α may travel by 3, at no more than 0.1 a step; a rate that is given stays."""
    search = make_search(tmp_path, epochs=epochs, warmup_share=0.5, alpha_lr=0.0)
    steps = (search.total_steps - epochs // 2 * search.train.per_epoch) // search.inner_steps
    rate = search.state.alpha_optimizer.param_groups[0]["lr"]
    assert rate == pytest.approx(expected or 3.0 / steps) and (expected or rate < 0.1)
    assert make_search(tmp_path, alpha_lr=0.07).state.alpha_optimizer.param_groups[0]["lr"] == 0.07
