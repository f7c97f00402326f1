"""Data hyper-cleaning: weights of training examples, learned so that a model trained with them does well elsewhere.

    lower f(x, w) = mean_i sigmoid(x_i) CE_i(w) on training data of which half carries a wrong label
    upper F(w)    = CE(w) on clean validation data

An example counts as contaminated where x_i <= 0; F1 is that of the clean class. The model is linear.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from pipeline.data.idx import read_idx

FASHION = Path("/usr/share/datasets/fashion-mnist")  # where Debian's dataset-fashion-mnist puts it
CLASSES = 10
LOWER_STEP = 0.05  # of gradient descent; pixels in [0, 1] give f a curvature of about 20
SOLVE_STEPS = 150  # of L-BFGS
DECAY = 1e-3  # weight decay of whatever is trained


class Examples(NamedTuple):
    """Flattened images in [0, 1] and their labels."""

    pixels: Tensor
    labels: Tensor


class Cleaning:
    """The bilevel problem, with the truth about its labels kept aside."""

    def __init__(self, sizes: Sequence[int], seed: int, folder: Path = FASHION) -> None:
        generator = torch.Generator().manual_seed(seed)
        pool = load_fashion(folder) if folder.exists() else load_digits()
        train, self.validation, self.test = split_balanced(pool, sizes, generator)
        self.clean = torch.rand(len(train.labels), generator=generator).argsort() < len(train.labels) // 2
        shift = torch.randint(1, CLASSES, train.labels.shape, generator=generator)  # never the label itself
        self.train = Examples(train.pixels, torch.where(self.clean, train.labels, (train.labels + shift) % CLASSES))
        self.x = torch.zeros(len(train.labels)).requires_grad_()
        self.w = [w.requires_grad_() for w in self.blank()]

    def blank(self) -> list[Tensor]:
        return [torch.zeros(CLASSES, self.train.pixels.shape[1]), torch.zeros(CLASSES, 1)]

    def inner(self, w: Sequence[Tensor], alpha: Sequence[Tensor]) -> Tensor:
        """f and the decay that gives it one solution."""
        losses = cross_entropies(w, self.train)
        return (alpha[0].sigmoid() * losses).mean() + DECAY / 2 * sum((v**2).sum() for v in w)

    def outer(self, w: Sequence[Tensor], alpha: Sequence[Tensor]) -> Tensor:
        return cross_entropies(w, self.validation).mean()

    def descend_lower(self, steps: int) -> None:
        descend(self.w, lambda: self.inner(self.w, [self.x.detach()]), steps)

    def solution(self) -> list[Tensor]:
        """z: the model trained from scratch with the present weights of the examples."""
        w = [v.requires_grad_() for v in self.blank()]
        minimize(w, lambda: self.inner(w, [self.x.detach()]))
        return w

    def validation_only(self, steps: int | None = None) -> list[Tensor]:
        """What y is compared with: the model that never saw the training data; after so many steps, or its solution."""
        w = [v.requires_grad_() for v in self.blank()]

        def loss() -> Tensor:
            return self.outer(w, []) + DECAY / 2 * sum((v**2).sum() for v in w)

        if steps is None:
            minimize(w, loss)
        else:
            descend(w, loss, steps)
        return w

    def accuracy(self, w: Sequence[Tensor]) -> float:
        """On the test data."""
        with torch.no_grad():
            return float((logits(w, self.test.pixels).argmax(0) == self.test.labels).float().mean())

    def f1(self) -> float:
        """2 TP / (2 TP + FP + FN) of calling an example clean where x_i > 0."""
        kept = self.x.detach() > 0
        hits = int((kept & self.clean).sum())
        return 2 * hits / max(1, int(kept.sum()) + int(self.clean.sum()))


def logits(w: Sequence[Tensor], pixels: Tensor) -> Tensor:
    """One column per image: on a CPU, this way round is nearly three times as fast."""
    return w[0] @ pixels.T + w[1]


def cross_entropies(w: Sequence[Tensor], examples: Examples) -> Tensor:
    return nn.functional.cross_entropy(logits(w, examples.pixels).T, examples.labels, reduction="none")


def descend(w: Sequence[Tensor], loss: Callable[[], Tensor], steps: int) -> None:
    """Gradient descent in place."""
    for _ in range(steps):
        gradients = torch.autograd.grad(loss(), list(w))
        with torch.no_grad():
            for v, g in zip(w, gradients, strict=True):
                v.sub_(g, alpha=LOWER_STEP)


def minimize(w: Sequence[Tensor], loss: Callable[[], Tensor]) -> None:
    """L-BFGS in place, to the solution or nearly so: a descent that stops early would be another regularizer."""
    solver = torch.optim.LBFGS(w, max_iter=SOLVE_STEPS, history_size=20, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        solver.zero_grad()
        value = loss()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    solver.step(closure)  # type: ignore[no-untyped-call]


def load_fashion(folder: Path) -> Examples:
    parts = ("train", "t10k")
    pixels = [read_idx(folder / f"{part}-images-idx3-ubyte.gz", 3).flatten(1) for part in parts]
    labels = [read_idx(folder / f"{part}-labels-idx1-ubyte.gz", 1) for part in parts]
    return Examples(torch.cat(pixels) / 255.0, torch.cat(labels).long())


def load_digits() -> Examples:
    from sklearn.datasets import load_digits as load

    digits = load()
    return Examples(torch.tensor(digits.data, dtype=torch.float32) / 16.0, torch.tensor(digits.target))


def split_balanced(pool: Examples, sizes: Sequence[int], generator: torch.Generator) -> list[Examples]:
    """Parts with as many examples of every class, as far as there are enough."""
    order = torch.randperm(len(pool.labels), generator=generator)
    members = [order[pool.labels[order] == label] for label in range(CLASSES)]
    each = torch.tensor([size // CLASSES for size in sizes])
    shortest = min(len(m) for m in members)
    if int(each.sum()) > shortest:
        each = each * shortest // int(each.sum())
    cuts = [torch.split(m[: int(each.sum())], each.tolist()) for m in members]
    chosen = [torch.cat(parts) for parts in zip(*cuts, strict=True)]
    return [Examples(pool.pixels[index], pool.labels[index]) for index in chosen]
