"""What a hypergradient costs on a DARTS supernet, in units of one training gradient of the same supernet.

    python -m benchmarks.hypergradient [--batch 16] [--rounds 3] [--memory-format channels_last] > results.md

Every timing stands between two training gradients of the same run, which are its unit. With one thread the clock is CPU
time of the process, which other load disturbs less than the wall. Peak memory is that of a process for each variant,
above what the process held once the supernet was built. The textbook way is the baseline: a double backward with a
graph of its own for each product, then a central difference for the mixed term.
"""

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from benchmarks.hypergradient_variants import GAMMA, Search
from pipeline.bilevel import Neumann

TERMS = range(6)
COUNTS = (1, 2, 5)
KINDS = ("finite_difference", "exact", "textbook", "cg", "reverse", "bvfim")
MEMORY = ["gradient", *(f"{kind} {count}" for kind in KINDS for count in COUNTS)]
DEFAULTS = {"cells": 8, "channels": 16, "resolution": 32, "batch": 16, "rounds": 3, "threads": 1}


def seconds(run: Callable[[], object], threads: int) -> float:
    clock = time.process_time if threads == 1 else time.perf_counter
    start = clock()
    run()
    return clock() - start


def time_variants(search: Search, names: list[str], options: argparse.Namespace) -> dict[str, float]:
    """Median over rounds of each variant's time over the mean of the two gradients beside it."""
    ratios: dict[str, list[float]] = {name: [] for name in names}
    search.gradient()
    for _ in range(options.rounds):
        before = seconds(search.gradient, options.threads)
        for name in names:
            taken = seconds(search.variant(name), options.threads)
            after = seconds(search.gradient, options.threads)
            ratios[name].append(2 * taken / (before + after))
            before = after
        print(f"unit {before:.2f} s", file=sys.stderr)
    return {name: statistics.median(values) for name, values in ratios.items()}


def peak_megabytes(name: str) -> float:
    """Peak resident memory of `name` in a process of its own, above the supernet."""
    command = [sys.executable, "-m", "benchmarks.hypergradient", *sys.argv[1:], "--memory-of", name]
    return float(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def measure_memory(name: str, options: argparse.Namespace) -> float:
    """Growth of the peak while `name` runs here. getrusage would count the parent's memory, which the fork had."""
    search = Search(options)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forget the peak of the imports
    before = peak_kilobytes()
    search.variant(name)()
    return (peak_kilobytes() - before) / 1024


def peak_kilobytes() -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def main() -> None:
    options = parse_arguments()
    if options.memory_of:
        print(json.dumps(measure_memory(options.memory_of, options)))
        return
    search = Search(options)
    kinds = ["finite_difference", "exact", "textbook"]
    extra = ["finite_difference+diagnostics 2", "exact+diagnostics 2", "central 2", "bvfim 3"]
    ratios = time_variants(search, [*(f"{kind} {k}" for k in TERMS for kind in kinds), *extra], options)
    print(describe(search, options))
    print("Cost of one hypergradient in training gradients:\n")
    print("| K | floor K+3 | finite difference | exact | textbook |\n|---|---|---|---|---|")
    for k in TERMS:
        print(f"| {k} | {k + 3} | " + " | ".join(f"{ratios[f'{kind} {k}']:.2f}" for kind in kinds) + " |")
    print("\nWith that many terms or steps: " + ", ".join(f"{name} {ratios[name]:.2f}" for name in extra) + ".")
    print_agreement(search)
    print_memory()


def print_agreement(search: Search) -> None:
    """ReLU and max pooling in single precision: two different numbers by nature, so only reported."""
    exact = search.diagnose(Neumann(GAMMA, 2))
    print("\nIndirect part with K = 2, ReLU, float32, finite difference against exact:\n")
    print("| norm of the step | cosine | ratio of norms |\n|---|---|---|")
    for step in (1e-1, 1e-2, 1e-3):
        other = search.diagnose(Neumann(GAMMA, 2, "finite_difference", step))
        cosine = float(nn.functional.cosine_similarity(exact, other, dim=0))
        print(f"| {step:g} | {cosine:.3f} | {float(other.norm() / exact.norm()):.1f} |")


def print_memory() -> None:
    peaks = {name: peak_megabytes(name) for name in MEMORY}
    print(f"\nPeak memory in that of one training gradient ({peaks['gradient']:.0f} MB above the supernet); the number")
    print("is K for Neumann and the textbook, steps for conjugate gradient, reverse mode and BVFIM:\n")
    print("| | 1 | 2 | 5 |\n|---|---|---|---|")
    for kind in KINDS:
        row = " | ".join(f"{peaks[f'{kind} {k}'] / peaks['gradient']:.2f}" for k in COUNTS)
        print(f"| {kind.replace('_', ' ')} | {row} |")


def describe(search: Search, options: argparse.Namespace) -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    cpu = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    weights = sum(p.numel() for p in search.w)
    return (
        f"## Hypergradient\n\nDARTS supernet of {options.cells} cells and {options.channels} channels "
        f"({weights:,} weights), {options.resolution} px, batch {options.batch}, {options.memory_format}, "
        f"{options.threads} thread(s), {options.rounds} rounds. "
        f"{cpu}, Python {platform.python_version()}, torch {torch.__version__}.\n"
    )


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in DEFAULTS.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--memory-format", choices=["contiguous_format", "channels_last"], default="channels_last")
    parser.add_argument("--memory-of", choices=MEMORY, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
