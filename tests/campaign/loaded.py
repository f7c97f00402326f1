"""What every command may need, loaded once: the processes of the campaign are forked from one that has it."""

import gc
import importlib
import os
import pkgutil

os.environ.setdefault("MPLBACKEND", "Agg")

import torch

import pipeline

_LIBRARIES = (
    "pytest", "tests.campaign.families", "tests.campaign.kills",  # what whoever plays has loaded, a child must have too
    "matplotlib.figure", "onnx", "onnxruntime", "onnxruntime.quantization", "onnxscript", "PIL.Image",
    "safetensors.torch", "scipy.optimize", "sklearn.datasets", "timm", "timm.optim", "timm.data.mixup",
    "timm.scheduler.scheduler_factory", "timm.utils.model_ema", "torch.onnx", "torch.utils.tensorboard",
)  # fmt: skip

for _name in _LIBRARIES:
    importlib.import_module(_name)
for _module in pkgutil.walk_packages(pipeline.__path__, "pipeline."):
    if _module.name != "pipeline.__main__":
        importlib.import_module(_module.name)
torch.set_num_threads(1)
gc.freeze()  # what is shared stays shared
