"""What a run ran on: recorded so that a result can be repeated."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pipeline.fingerprint import processor_name
from pipeline.openmp import threads_of_environment
from pipeline.stages.context import Context

_PACKAGES = ("torch", "torchvision", "timm", "onnx", "onnxruntime", "onnxruntime-gpu", "onnxscript", "numpy", "scipy")


def describe_environment(context: Context) -> dict[str, Any]:
    """Versions, machine, seed, threads and memory format."""
    compute = context.config.compute
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": processor_name(),
        "cores": os.cpu_count(),
        "threads": compute.threads or threads_of_environment() or os.cpu_count(),
        "device": str(context.device),
        "seed": compute.seed,
        "memory_format": "channels_last" if compute.channels_last else "contiguous",
        "packages": {name: found for name in _PACKAGES if (found := _version(name))},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
