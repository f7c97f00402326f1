"""Networks of fair groups: trained in turn, judged together, and the gradient of their expectation."""

from pathlib import Path
from typing import Any

import pytest
import torch

from pipeline.bilevel import DirectOnly, Neumann, ReverseMode, hypergradient
from pipeline.search.expectation import draw_fair_group
from tests.search.problem import make_search


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
