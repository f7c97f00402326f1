"""Two small bilevel problems with known optima, on which derivatives of the lower solution fail: who ends where.

    python -m benchmarks.bilevel_toys [--picture benchmarks/pictures/bilevel_toys.png]

Every round is 25 gradient steps on w, a hypergradient and a step of Adam on x, in float64. BVFIM runs with
(tau, theta, mu1) = 1 / 1.016^k; its barrier starts above the hills of f and y goes on where the round before ended.
"""

import argparse
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from pipeline.bilevel import (
    T1T2,
    ConjugateGradient,
    ExactInverse,
    HypergradientError,
    Method,
    Neumann,
    OneStepUnroll,
    ReverseMode,
    TruncatedReverse,
    ValueFunction,
    hypergradient_with_diagnostics,
)

ROUNDS, RATE, FALL, LOWER_STEPS, LOWER_STEP = 500, 0.02, 1.016, 25, 0.01
STARTS = [(0.0, 0.0), (3.0, 3.0), (0.0, 5.0), (5.0, -5.0)]
Start = list[Tensor] | None


class Toy(ABC):
    """A bilevel problem with one upper variable."""

    hills: float
    """More than f rises between two of its solutions."""
    shift: float
    """A constant that keeps the inner loss above 0, which the adaptive form needs."""

    def __init__(self, title: str, optimum: Sequence[float], weights: int) -> None:
        self.title, self.optimum, self.weights = title, optimum, weights

    @abstractmethod
    def inner(self, w: Sequence[Tensor], alpha: Sequence[Tensor]) -> Tensor:
        """f, shifted"""

    @abstractmethod
    def outer(self, w: Sequence[Tensor], alpha: Sequence[Tensor]) -> Tensor:
        """F"""

    @abstractmethod
    def slope(self, x: float, y: Sequence[float]) -> list[float]:
        """df/dy, in plain numbers."""

    def descend_lower(self, x: Tensor, y: Tensor, decay: float) -> None:
        """Gradient steps on f + decay/2 |y|^2."""
        values = y.tolist()
        for _ in range(LOWER_STEPS):
            slope = self.slope(x.item(), values)
            values = [v - LOWER_STEP * (s + decay * v) for v, s in zip(values, slope, strict=True)]
        y.data.copy_(torch.tensor(values))


class Sine(Toy):
    """f = sum_i sin(x + y_i - 2), F = (x - 2)^2 + |y - 4|^2: many lower solutions, apart by hills."""

    def __init__(self, n: int) -> None:
        best = (2 * (1 - n) + n * 1.5 * math.pi) / (1 + n)
        super().__init__(f"sine, n = {n}", [best, *[1.5 * math.pi + 2 - best] * n], n)
        self.hills, self.shift = 4.0 * n, float(n)

    def inner(self, w: Sequence[Tensor], alpha: Sequence[Tensor]) -> Tensor:
        return (alpha[0] + w[0] - 2).sin().sum() + self.shift

    def outer(self, w: Sequence[Tensor], alpha: Sequence[Tensor]) -> Tensor:
        return ((alpha[0] - 2) ** 2).sum() + ((w[0] - 4) ** 2).sum()

    def slope(self, x: float, y: Sequence[float]) -> list[float]:
        return [math.cos(x + v - 2) for v in y]


class FreeWeight(Toy):
    """f = (y1 - x)^2 / 2 with y2 free, F = (x - y2)^2 / 2 + (y1 - 1)^2 / 2: a line of lower solutions."""

    hills, shift = 1.0, 1.0

    def __init__(self) -> None:
        super().__init__("free weight", [1.0, 1.0, 1.0], 2)

    def inner(self, w: Sequence[Tensor], alpha: Sequence[Tensor]) -> Tensor:
        return ((w[0][0] - alpha[0]) ** 2).sum() / 2 + self.shift

    def outer(self, w: Sequence[Tensor], alpha: Sequence[Tensor]) -> Tensor:
        return ((alpha[0] - w[0][1]) ** 2).sum() / 2 + (w[0][0] - 1) ** 2 / 2

    def slope(self, x: float, y: Sequence[float]) -> list[float]:
        return [y[0] - x, 0.0]


def barrier(form: Literal["barrier", "adaptive"]) -> Callable[[Toy, float, Start], Method]:
    def method(toy: Toy, share: float, start: Start) -> Method:
        mu2 = "adaptive" if form == "adaptive" else toy.hills * share
        return ValueFunction(0.01, 8, tau=share, theta=share, mu1=share, mu2=mu2, start=start)  # type: ignore[arg-type]

    return method


METHODS: dict[str, Callable[[Toy, float, Start], Method]] = {
    "BVFIM, barrier": barrier("barrier"),
    "BVFIM, adaptive": barrier("adaptive"),
    "exact inverse": lambda toy, share, y: ExactInverse(),
    "Neumann": lambda toy, share, y: Neumann(0.5, 8),
    "CG": lambda toy, share, y: ConjugateGradient(4),
    "reverse": lambda toy, share, y: ReverseMode(0.5, 8),
    "truncated": lambda toy, share, y: TruncatedReverse(0.5, 8, 4),
    "T1-T2": lambda toy, share, y: T1T2(),
    "one step": lambda toy, share, y: OneStepUnroll(0.5),
}


class Course(NamedTuple):
    """Where (x, y) went; `y` is the weights that the upper loss was taken at."""

    points: list[list[float]]
    upper: float
    lower: float
    error: str = ""


def solve(toy: Toy, name: str, start: tuple[float, float]) -> Course:
    x = torch.tensor([start[0]], dtype=torch.float64).requires_grad_()
    w = torch.full((toy.weights,), start[1], dtype=torch.float64).requires_grad_()
    adam, y, points, error = torch.optim.Adam([x], lr=RATE), None, [[start[0], *[start[1]] * toy.weights]], ""
    for k in range(ROUNDS):
        share = FALL**-k
        toy.descend_lower(x, w, decay=share if name.startswith("BVFIM") else 0.0)
        try:
            result = hypergradient_with_diagnostics(toy.inner, toy.outer, [w], [x], METHODS[name](toy, share, y))
        except HypergradientError as problem:
            error = type(problem).__name__
            break
        x.grad, y = result.gradient[0], result.end
        adam.step()
        points.append([x.item(), *(y[0] if y else w.detach()).tolist()])
    end = [(y[0] if y else w).detach()]
    with torch.no_grad():
        return Course(points, toy.outer(end, [x]).item(), toy.inner(end, [x]).item() - toy.shift, error)


def describe(toy: Toy, path: Course) -> str:
    """x and F at the end, in bold where they are the optimum's (x within 3 %); the error that ended it."""
    if path.error:
        return path.error
    x, best = path.points[-1][0], toy.optimum[0]
    text = f"{x:.3f}, {path.upper:.3f}"
    near = all(abs(a - b) <= 0.05 * abs(b) for a, b in zip(path.points[-1], toy.optimum, strict=True))
    return f"**{text}**" if near and abs(x - best) <= 0.03 * best else text


def draw(paths: dict[str, list[Course]], file: Path) -> None:
    """The paths of n = 1 in the plane of x and y: a panel per start, over F and the lines of lower solutions."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 4, figsize=(17, 4.8), sharey=True, layout="constrained")
    side = torch.linspace(-6, 8, 120)
    levels = (side[None, :] - 2) ** 2 + (side[:, None] - 4) ** 2
    for index, (panel, start) in enumerate(zip(panels, STARTS, strict=True)):
        panel.contour(side, side, levels, levels=12, colors="0.85", linewidths=0.8)
        for branch in (-1, 0, 1):
            panel.plot(side, 2 * math.pi * branch - math.pi / 2 + 2 - side, color="0.6", linestyle=":")
        for number, (name, found) in enumerate(paths.items()):
            x, y = zip(*found[index].points, strict=True)
            panel.plot(x, y, color=f"C{number}", label=name, linewidth=2.6 if number == 0 else 1.3)
            panel.plot(x[-1], y[-1], "o", color=f"C{number}", markersize=5)
        panel.plot(3 * math.pi / 4, 3 * math.pi / 4 + 2, "k*", markersize=13, label="optimum")
        panel.set(title=f"from ({start[0]:g}, {start[1]:g})", xlabel="x", xlim=(-6, 7), ylim=(-6, 8))
    panels[0].set_ylabel("y")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=10, frameon=False)
    figure.savefig(file, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for toy in (Sine(1), Sine(2), FreeWeight()):
        print(f"\n{toy.title}: x and F at the end; the optimum is x = {toy.optimum[0]:.4f}\n")
        print("| method | " + " | ".join(f"from ({a:g}, {b:g})" for a, b in STARTS) + " |\n|---|---|---|---|---|")
        paths: dict[str, list[Course]] = {}
        for name in METHODS:
            paths[name] = [solve(toy, name, start) for start in STARTS]
            print(f"| {name} | " + " | ".join(describe(toy, path) for path in paths[name]) + " |", flush=True)
        if options.picture and toy.title == "sine, n = 1":
            draw(paths, options.picture)


if __name__ == "__main__":
    main()
