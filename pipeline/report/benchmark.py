"""`pipeline bench`: the latency of one ONNX file, or the ratio of two."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.config import TargetConfig
from pipeline.console import say
from pipeline.errors import UserError
from pipeline.latency.bench import bench_models, compare_models
from pipeline.latency.target import P50_MEANS, TargetMachine


def bench_files(models: Sequence[Path], target: TargetConfig, shapes: Sequence[str], compare: bool) -> dict[str, Any]:
    """The record of a benchmark on the target, in onnxruntime, which is what runs such files."""
    if len(models) != 1 + compare:
        raise UserError(f"{'--compare takes two files' if compare else 'give one file, or two with --compare'}")
    machine = TargetMachine.of(target, "onnxruntime")
    if compare:
        found = compare_models(machine, models[0], models[1], shapes)
        timed = [found.a, found.b]
    else:
        timed = bench_models(machine, models, shapes)
    for one in timed:
        if one.batch != target.batch:
            say(f"{one.file.path} was timed at its own batch of {one.batch}; [target] batch = {target.batch}")
    say(P50_MEANS)
    return (found if compare else timed[0]).record()
