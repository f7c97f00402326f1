"""Steps on some rows against torch's RMSprop on all of them."""

import torch

from pipeline.autodo.rmsprop import RowRmsprop
from tests.autodo.problem import randn


def test_rows_that_are_left_out_fade_as_if_their_gradient_were_zero() -> None:
    start = {"weights": randn(6, seed=0), "labels": randn(6, 3, seed=1)}
    ours = RowRmsprop({name: value.clone() for name, value in start.items()})
    dense = [value.clone().requires_grad_() for value in start.values()]
    optimizer = torch.optim.RMSprop(dense, lr=0.05, alpha=0.99)
    for step, rows in enumerate(([0, 1], [4], [1, 2, 5], [4, 0], [1], [0, 5]), start=1):
        numbers = torch.tensor(rows)
        gradients = {name: randn(len(rows), *value.shape[1:], seed=step) for name, value in start.items()}
        for value, gradient in zip(dense, gradients.values(), strict=True):
            value.grad = torch.zeros_like(value).index_copy(0, numbers, gradient)
        optimizer.step()
        ours.step(numbers, gradients, 0.05, step)
    for wanted, found in zip(dense, ours.values.values(), strict=True):
        assert torch.allclose(found, wanted.detach(), rtol=0, atol=1e-12)


def test_the_state_survives() -> None:
    first = RowRmsprop({"weights": randn(4, seed=0)})
    first.step(torch.tensor([1, 3]), {"weights": randn(2, seed=1)}, 0.1, 1)
    second = RowRmsprop({"weights": torch.zeros(4, dtype=torch.float64)})
    second.load(first.state())
    for one in (first, second):
        one.step(torch.tensor([3, 0]), {"weights": randn(2, seed=2)}, 0.1, 4)
    assert torch.equal(first.values["weights"], second.values["weights"])
    assert torch.equal(first.touched, second.touched)
