"""Every method of pipeline.bilevel on data hyper-cleaning, at an equal number of gradients per round.

    python -m benchmarks.hyper_cleaning [--sizes 5000 5000 10000] [--rounds 60] [--only "BVFIM, barrier"]

Fashion-MNIST from Debian's package dataset-fashion-mnist; digits where it is absent. A round is some gradient steps on
w, one hypergradient and one step of Adam on x; the steps on w fill a round up to the time of about 60 gradients. z is
the model trained from scratch with the learned weights of the examples, which is what cleaning is for. BVFIM's y
minimizes the *validation* loss, so it is to be compared with the model that is trained on validation data alone.
Each method runs in a process of its own; peak memory is above what data and model take.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from benchmarks.hyper_cleaning_problem import DECAY, LOWER_STEP, Cleaning
from benchmarks.hypergradient import peak_kilobytes
from pipeline.bilevel import (
    T1T2,
    ConjugateGradient,
    Method,
    Neumann,
    OneStepUnroll,
    ReverseMode,
    TruncatedReverse,
    ValueFunction,
    hypergradient_with_diagnostics,
)

UPPER_RATE = 0.15
Y_STEPS = 14
FALL = 1.02  # of tau and mu2 per round
Start = list[Tensor] | None


class Row(NamedTuple):
    """A method, and how many steps on w its rounds have besides."""

    lower_steps: int
    method: Callable[[int, Start], Method]
    moves_w: bool = False
    """An unrolled method's own steps are the steps on w."""


def barrier(mu2: float | Literal["adaptive"]) -> Callable[[int, Start], Method]:
    def method(k: int, start: Start) -> Method:
        share = FALL**-k
        level = mu2 if isinstance(mu2, str) else mu2 * share
        return ValueFunction(LOWER_STEP, Y_STEPS, tau=share, theta=DECAY, mu1=0.0, mu2=level, start=start)

    return method


ROWS = {
    "BVFIM, barrier": Row(25, barrier(1.0)),
    "BVFIM, adaptive": Row(25, barrier("adaptive")),
    "Neumann, 10 terms": Row(45, lambda k, y: Neumann(LOWER_STEP, 10)),
    "CG, 10 steps": Row(46, lambda k, y: ConjugateGradient(10, rtol=1e-6)),
    "reverse, 18 steps": Row(0, lambda k, y: ReverseMode(LOWER_STEP, 18), moves_w=True),
    "truncated, last 10 of 32": Row(0, lambda k, y: TruncatedReverse(LOWER_STEP, 32, 10), moves_w=True),
    "T1-T2": Row(56, lambda k, y: T1T2()),
    "one step": Row(56, lambda k, y: OneStepUnroll(LOWER_STEP)),
}
BASELINES = ("plain", "the clean half", "validation only", "validation only, y's steps")


def run(row: Row, p: Cleaning, rounds: int) -> dict[str, float]:
    """Learn the weights of the examples; what came of it."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    adam, before, cpu, y = torch.optim.Adam([p.x], lr=UPPER_RATE), peak_kilobytes(), time.process_time(), None
    upper = 0.0
    for k in range(rounds):
        p.descend_lower(row.lower_steps)
        began = time.process_time()
        result = hypergradient_with_diagnostics(p.inner, p.outer, p.w, [p.x], row.method(k, y))
        upper += time.process_time() - began
        p.x.grad, y = result.gradient[0], result.end
        if row.moves_w and y is not None:
            for v, moved in zip(p.w, y, strict=True):
                v.data.copy_(moved)
        adam.step()
    found = {"cpu_s": time.process_time() - cpu, "peak_mb": (peak_kilobytes() - before) / 1024, "f1": p.f1()}
    found["call_ms"] = 1e3 * upper / rounds
    if y is not None and not row.moves_w:
        found["y"] = p.accuracy(y)
    return {**found, "z": p.accuracy(p.solution())}


def run_named(name: str, options: argparse.Namespace) -> dict[str, float]:
    torch.set_num_threads(1)
    p = Cleaning(options.sizes, options.seed)
    if name == "plain":
        return {"z": p.accuracy(p.solution()), "gradient_ms": gradient_ms(p), "images": len(p.x)}
    if name == "the clean half":
        p.x.data.copy_(torch.where(p.clean, 10.0, -10.0))
        return {"z": p.accuracy(p.solution()), "f1": p.f1()}
    if name == "validation only":
        return {"y": p.accuracy(p.validation_only())}
    if name == "validation only, y's steps":
        return {"y": p.accuracy(p.validation_only(Y_STEPS * options.rounds))}
    return run(ROWS[name], p, options.rounds)


def gradient_ms(p: Cleaning) -> float:
    p.descend_lower(5)
    began = time.process_time()
    p.descend_lower(20)
    return 1e3 * (time.process_time() - began) / 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs=3, default=[5000, 5000, 10000])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=[*BASELINES, *ROWS])
    options = parser.parse_args()
    if options.only:
        print(json.dumps(run_named(options.only, options)))
        return
    print("| method | steps on w | F1 | accuracy of z | of y | CPU s | one call, in gradients | peak MB |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    unit = 0.0
    for name in (*BASELINES, *ROWS):
        command = [sys.executable, "-m", "benchmarks.hyper_cleaning", *sys.argv[1:], "--only", name]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        unit = found.get("gradient_ms", unit)
        steps = ROWS[name].lower_steps if name in ROWS else ""
        share = f"{found['call_ms'] / unit:.1f}" if "call_ms" in found else ""
        cells = [name, steps, *(_percent(found, key) for key in ("f1", "z", "y"))]
        cells += [_whole(found, "cpu_s"), share, _whole(found, "peak_mb")]
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)
    print(f"\nOne gradient of f: {unit:.1f} ms.")


def _whole(found: dict[str, float], key: str) -> str:
    return f"{found[key]:.0f}" if key in found else ""


def _percent(found: dict[str, float], key: str) -> str:
    return f"{100 * found[key]:.1f}" if key in found else ""


if __name__ == "__main__":
    main()
