"""`pipeline bench`: the latency of one ONNX file, or the ratio of two."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.console import progress_bar
from pipeline.errors import UserError
from pipeline.latency.bench import bench_model, compare_models
from pipeline.latency.devices import open_device


def bench_files(models: Sequence[Path], device: str, threads: int, batch: int, compare: bool) -> dict[str, Any]:
    """The record of a benchmark with a bar while it runs."""
    if len(models) != 1 + compare:
        raise UserError(f"{'--compare takes two files' if compare else 'give one file, or two with --compare'}")
    target = open_device(device, threads, batch)
    with progress_bar() as bar:
        task = bar.add_task("timing", total=100, note="")

        def advance(share: float) -> None:
            bar.update(task, completed=round(100 * share))

        if compare:
            return compare_models(target, models[0], models[1], progress=advance).record()
        return bench_model(target, models[0], progress=advance).record()
