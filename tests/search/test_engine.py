"""The search itself: the paper's algorithm step by step, every method, resumption to the bit, guards."""

import os
import signal
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch

from pipeline.bilevel import DirectOnly, Neumann, ReverseMode, hypergradient
from pipeline.errors import UserError
from pipeline.resumable.history import read_history
from pipeline.search.architecture import SearchDiverged
from pipeline.search.expectation import draw_fair_group
from pipeline.search.loop import SearchFiles, run_search
from pipeline.search.methods import inner_steps
from pipeline.search_config import Method, SearchConfig
from pipeline.space.score import edge_weights
from tests.search.problem import SEARCH, finish, make_search, write_images


def files(folder: Path) -> SearchFiles:
    return SearchFiles(folder / "checkpoint", folder / "history.jsonl", folder / "tensorboard")


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


def test_fair_paths_train_one_network_at_a_time_and_judge_a_group(tmp_path: Path) -> None:
    """By plain torch: SGD on the networks of a group in turn, then the gradient of their expectation."""
    search, oracle = (make_search(tmp_path, paths="fair", method="first-order", weight_lr=0.1) for _ in range(2))
    reports = [search.advance() for _ in range(2)]
    assert reports[0] is None and reports[1] is not None
    losses, state, space = oracle.losses, oracle.state, oracle.constraint.space
    weights = list(losses.supernet.parameters())
    optimizer = torch.optim.SGD(weights, lr=0.1, momentum=0.9, nesterov=True, weight_decay=3e-4)
    for step, network in enumerate(draw_fair_group(space, (0, 0, 0))[:2]):
        batch = losses.prepare(oracle.train.batch(step))
        rate = 0.001 + 0.099 * (1 + torch.cos(torch.tensor(torch.pi * step / oracle.total_steps))) / 2
        optimizer.param_groups[0]["lr"] = float(rate)
        for weight in weights:
            weight.grad = torch.zeros_like(weight)  # operations that did not run decay, and keep their momentum
        torch.nn.functional.cross_entropy(losses.supernet.run(batch.images, network), batch.labels).backward()
        torch.nn.utils.clip_grad_norm_(weights, 5.0)
        optimizer.step()
    for ours, theirs in zip(search.losses.supernet.parameters(), weights, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)
    validation = losses.prepare(oracle.validation.batch(0))
    group = draw_fair_group(space, (0, 1, 0))
    value = oracle.constraint.penalize(losses.cross_entropy(validation, state.alphas, group), state.alphas, 1.0)
    for mine, other in zip(reports[1].gradient.gradient, torch.autograd.grad(value, state.alphas), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-5)
    (found,) = (losses.supernet.run(validation.images, network) for network in group[:1])
    alone = torch.nn.functional.cross_entropy(found, validation.labels)
    torch.testing.assert_close(losses.cross_entropy(validation, state.alphas, group[:1]), alone)


@pytest.mark.parametrize(("method", "products"), [("idarts", "gauss_newton"), ("darts", "exact")])
def test_the_direct_part_is_of_all_groups_and_the_implicit_part_of_a_few_networks(
    method: str, products: Any, tmp_path: Path
) -> None:
    """By plain torch: the mean over groups of their own gradients, and what weights that follow alpha add for two."""
    settings: dict[str, Any] = {"paths": "fair", "implicit_networks": 2, "inner_steps": 6}
    settings |= {"method": method, "products": products, "gamma": 1e-3, "penalty": 0.0}
    search, oracle = (make_search(tmp_path, **settings) for _ in range(2))
    steps = 1 if method == "darts" else 6
    report = [search.advance() for _ in range(steps)][-1]
    assert report is not None and not report.gradient.is_first_order
    losses, state, space = oracle.losses, oracle.state, oracle.constraint.space
    groups, of_groups = [draw_fair_group(space, (0, 1, number)) for number in range(2)], list[torch.Tensor]()
    for step in range(steps):
        batch = losses.prepare(oracle.train.batch(step))
        oracle._step_weights(batch, oracle._weight_lr())
        state.step += 1
        if state.step in (4, steps):  # a whole group was trained, or the round is over
            images = losses.prepare(oracle.validation.batch(len(of_groups)))
            of_groups.append(losses.cross_entropy(images, state.alphas, groups[len(of_groups)]))
    (direct,) = torch.autograd.grad(torch.stack(of_groups).mean(), state.alphas)
    few = groups[len(of_groups) - 1][:2]
    own, whole = (
        hypergradient(
            losses.inner(batch, state.alphas, few),
            lambda w, a: losses.cross_entropy(images, state.alphas, few),
            list(losses.supernet.parameters()),
            state.alphas,
            how,
            buffers=list(losses.supernet.buffers()),
        )[0]
        for how in (DirectOnly(), (Neumann if method == "idarts" else ReverseMode)(1e-3, 1, products))
    )
    indirect = whole - own
    assert indirect.norm() > 1e-4 * direct.norm()
    torch.testing.assert_close(report.gradient.gradient[0], direct + indirect, rtol=1e-3, atol=1e-6)
    torch.testing.assert_close(report.gradient.gradient[0] - direct, indirect, rtol=2e-2, atol=2e-7)
    assert report.validation_loss == pytest.approx(torch.stack(of_groups).mean().item(), rel=1e-5)


def test_groups_are_judged_at_the_weights_along_a_round(tmp_path: Path) -> None:
    """A group after every fourth weight step, an architecture step after every eighth, neither in the warm-up."""
    search = make_search(tmp_path, paths="fair", inner_steps=8, epochs=4, warmup_share=0.25, batch_size=4)
    space, seen = search.constraint.space, list[tuple[int, float]]()
    for _ in range(search.total_steps // 2):
        so_far = search._judged_so_far
        losses = search.losses
        report = search.advance()
        if search._judged_so_far > so_far:
            validation = losses.prepare(search.validation.batch(so_far))
            network = draw_fair_group(space, (0, 1, so_far))[0]
            logits = losses.supernet.run(validation.images, network)
            known = [*search.state.network_losses, *search.state.round_losses][so_far][0]
            assert known == pytest.approx(torch.nn.functional.cross_entropy(logits, validation.labels).item(), rel=1e-4)
            seen.append((search.state.step, known))
        assert (report is None) == bool(search.state.step % 8 or search.state.step <= search.train.per_epoch)
    assert [step for step, _ in seen] == [
        step for step in range(search.train.per_epoch + 1, search.total_steps // 2 + 1) if step % 4 == 0
    ]


def test_every_group_that_was_judged_is_kept(tmp_path: Path) -> None:
    search = make_search(tmp_path, paths="fair", inner_steps=6, batch_size=4)
    for _ in range(12):  # after 4, 6, 8 and 12: whole groups, and the end of every round
        search.advance()
    space, found = search.constraint.space, search.judged_networks()
    assert found.groups == [draw_fair_group(space, (0, 1, number)) for number in range(4)]
    assert [len(losses) for losses in found.losses] == [len(found.groups[0])] * 4


def test_judging_leaves_the_statistics_of_the_supernet_alone(tmp_path: Path) -> None:
    search = make_search(tmp_path, paths="fair", inner_steps=2)
    search.advance()
    batch = search.losses.prepare(search.train.batch(1))
    search._step_weights(batch, 0.01)
    before = [buffer.clone() for buffer in search.losses.supernet.buffers()]
    search._step_architecture(batch, 0, 0.01)
    assert all(torch.equal(a, b) for a, b in zip(before, search.losses.supernet.buffers(), strict=True))


def test_a_solve_that_misses_gives_way_to_the_first_order_gradient(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings: dict[str, Any] = {"seed": 3, "weight_lr": 0.1, "weight_decay": 0.2, "epochs": 1}
    missed, solved = make_search(tmp_path, gamma=0.1, **settings), make_search(tmp_path, gamma=1e-3, **settings)
    direct = make_search(tmp_path, method="first-order", **settings)
    steps = [[search.advance() for _ in range(2)][-1] for search in (missed, solved, direct)]
    found = [step.gradient for step in steps if step is not None]
    assert found[0].diagnostics.residual is not None and found[0].diagnostics.residual >= 1
    assert [one.is_first_order for one in found] == [True, False, False]
    assert torch.equal(found[0].gradient[0], found[2].gradient[0])
    assert not torch.allclose(found[1].gradient[0], found[2].gradient[0], rtol=1e-4)
    run_search(missed, files(tmp_path), "hash", 1e9)
    entries = read_history(tmp_path / "history.jsonl")
    fallbacks = 1 + sum(entry.get("first_order_fallback", 0) for entry in entries)  # one before the history began
    assert [e["first_order_fallbacks"] for e in entries if "first_order_fallbacks" in e] == [fallbacks]
    said = capsys.readouterr().err
    assert f"{fallbacks} of {missed.state.alpha_step} architecture steps took the first-order" in said.replace(
        "\n", " "
    )


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


def test_guards_judge_by_batches_of_all_classes(tmp_path: Path) -> None:
    """A folder's images come class by class; networks are judged with the statistics of a batch, which is mixed."""
    write_images(tmp_path / "data.npz")
    with np.load(tmp_path / "data.npz") as found:
        order = np.argsort(found["y_train"], kind="stable")
        sorted_by_class = {name: found[name][order] if "train" in name else found[name] for name in found.files}
    np.savez(tmp_path / "data.npz", **sorted_by_class)
    search = make_search(tmp_path)
    for index in range(search.validation.per_epoch):
        first, again = (search.validation.fixed_batch(index) for _ in range(2))
        assert len(first.labels.unique()) > 1 and torch.equal(first.images, again.images)


def test_seeds_matter(tmp_path: Path) -> None:
    one, other = finish(make_search(tmp_path, seed=1, epochs=1)), finish(make_search(tmp_path, seed=2, epochs=1))
    assert not torch.equal(one[0], other[0])


def test_run_search_writes_a_history_and_resumes(tmp_path: Path) -> None:
    whole = run_search(make_search(tmp_path), files(tmp_path / "whole"), "hash", 0.0)
    interrupted = make_search(tmp_path)
    real, calls = interrupted.advance, 0

    def die_after_seven() -> Any:
        nonlocal calls
        calls += 1
        if calls > 7:
            raise RuntimeError("killed")
        return real()

    interrupted.advance = die_after_seven  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="killed"):
        run_search(interrupted, files(tmp_path / "resumed"), "hash", 0.0)
    resumed = run_search(make_search(tmp_path), files(tmp_path / "resumed"), "hash", 0.0)
    assert all(torch.equal(a, b) for a, b in zip(whole.alphas, resumed.alphas, strict=True))
    entries = read_history(tmp_path / "resumed" / "history.jsonl")
    assert [e["resumed_from_step"] for e in entries if "resumed_from_step" in e] == [7]
    steps = [e["step"] for e in entries if "validation_loss" in e]
    assert steps == [e["step"] for e in read_history(tmp_path / "whole" / "history.jsonl") if "validation_loss" in e]
    guards = [e for e in entries if "discretization_gap" in e]
    assert len(guards) == 3 and {
        "parameter_free_share",
        "costliest_share",
        "margin_min",
        "entropy",
        "expected_MACs",
    } <= {key for e in entries for key in e}


def test_a_signal_before_the_first_step_ends_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of the hypergradient is long and leaves nothing to save: no step is waited for."""
    search = make_search(tmp_path)
    monkeypatch.setattr(search, "check_hypergradient", lambda: os.kill(os.getpid(), signal.SIGINT))
    monkeypatch.setattr(search, "advance", lambda: pytest.fail("it stepped"))
    with pytest.raises(KeyboardInterrupt):
        run_search(search, files(tmp_path), "hash", 0.0)
    assert not list(tmp_path.rglob("*.pt"))


def test_a_checkpoint_of_another_configuration_is_refused(tmp_path: Path) -> None:
    search = make_search(tmp_path)
    search.advance()
    from pipeline.resumable.checkpoint import Checkpoints

    Checkpoints(files(tmp_path).checkpoints, "one").save(search.state.step, search.state.record())
    with pytest.raises(UserError, match="another configuration"):
        run_search(make_search(tmp_path), files(tmp_path), "other", 0.0)


def test_divergence_halves_gamma_then_stops_with_the_best_architecture(tmp_path: Path) -> None:
    search = make_search(tmp_path, gamma=100.0, neumann_terms=3)
    search.advance()
    with pytest.raises(SearchDiverged, match="5 times in a row"):
        search.advance()
    mild = make_search(tmp_path, gamma=0.05, epochs=2)
    while not mild.at_epoch_end or mild.state.step == 0:
        mild.advance()
    mild.end_epoch()
    assert mild.state.best is not None
    object.__setattr__(mild.config, "gamma", 1e12)
    result = run_search(mild, files(tmp_path), "hash", 1e9)
    assert result.stopped_early is not None and "5 times" in result.stopped_early
    assert all(torch.equal(a, b) for a, b in zip(result.alphas, mild.state.best.alphas, strict=True))


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


@pytest.mark.parametrize(
    ("settings", "steps", "expected"),
    [({}, 10_000, 64), ({}, 320, 16), ({}, 7, 1), ({"inner_steps": 5}, 7, 5), ({"method": "darts"}, 10_000, 1)],
)
def test_a_short_search_has_shorter_rounds(settings: dict[str, Any], steps: int, expected: int) -> None:
    assert inner_steps(SearchConfig(**settings), steps) == expected


@pytest.mark.parametrize(("epochs", "expected"), [(3, 0.1), (400, None)])
def test_the_rate_of_alpha_follows_from_the_steps_it_has(tmp_path: Path, epochs: int, expected: float | None) -> None:
    """Over the whole search α may travel by 3, at no more than 0.1 a step; a rate that is given stays."""
    search = make_search(tmp_path, epochs=epochs, warmup_share=0.5, alpha_lr=0.0)
    steps = (search.total_steps - epochs // 2 * search.train.per_epoch) // search.inner_steps
    rate = search.state.alpha_optimizer.param_groups[0]["lr"]
    assert rate == pytest.approx(expected or 3.0 / steps) and (expected or rate < 0.1)
    assert make_search(tmp_path, alpha_lr=0.07).state.alpha_optimizer.param_groups[0]["lr"] == 0.07
