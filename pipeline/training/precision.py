"""In which numbers a training step computes: mixed precision on CUDA, bfloat16 on a CPU where it measures faster."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Literal, NamedTuple, cast

import torch

Name = Literal["float32", "bfloat16", "float16"]

_DTYPES: dict[Name, torch.dtype] = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_SHORT_ENOUGH = 0.85  # of float32's time, below which bfloat16 is taken
_RUNS = 3


class Precision(NamedTuple):
    """Weights stay float32; `name` is what convolutions and linear layers compute in."""

    name: Name
    device: torch.device

    def autocast(self) -> AbstractContextManager[object]:
        return torch.autocast(self.device.type, _DTYPES[self.name], enabled=self.name != "float32")


def choose_precision(wanted: str, device: torch.device, run_step: Callable[[Precision], object]) -> Precision:
    """What the configuration wants; `auto` on a CPU times `run_step` both ways, the first of each not counted."""
    if wanted != "auto":
        return Precision(cast(Name, wanted), device)
    if device.type == "cuda":
        return Precision("bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float16", device)
    plain, short = Precision("float32", device), Precision("bfloat16", device)
    return short if _seconds(run_step, short) < _SHORT_ENOUGH * _seconds(run_step, plain) else plain


def _seconds(run_step: Callable[[Precision], object], precision: Precision) -> float:
    times = []
    for _ in range(1 + _RUNS):
        start = time.perf_counter()
        run_step(precision)
        times.append(time.perf_counter() - start)
    return min(times[1:])
