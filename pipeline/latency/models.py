"""What is timed: modules turned into what a device takes, the sentinel, and whole networks with random weights."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pipeline.latency.measure import Device
from pipeline.onnx_file import write_quick
from pipeline.space.folding import Affine, FromPixels, ScaleShift, fold_batch_norms
from pipeline.space.genotype import Genotype, genotype_from_record
from pipeline.space.network import Network
from pipeline.space.skeleton import Skeleton

# Small, and of the same kinds of operations as what it stands beside: other work on the machine slows both alike.
_SENTINEL_SKELETON = Skeleton("darts", cells=3, channels=16, resolution=16, classes=10)
_SENTINEL_GENES = [["sep_conv_3x3", 0], ["skip_connect", 1], ["sep_conv_5x5", 0], ["dil_conv_3x3", 1]]
_SENTINEL_GENES += [["max_pool_3x3", 0], ["sep_conv_3x3", 2], ["avg_pool_3x3", 1], ["dil_conv_5x5", 3]]


def from_pixels(network: nn.Module, skeleton: Skeleton) -> FromPixels:
    """Behind a normalization, as a deployed file has it: about 1 % of its time."""
    ones = torch.ones(skeleton.in_channels)
    return FromPixels(ScaleShift(Affine(4 * ones, -2 * ones)), network)


def make_model(device: Device, module: nn.Module, inputs: Sequence[Tensor]) -> Any:
    """The module as `device` takes it, a file as one is deployed: without BatchNorm.

    Statistics of normalizations are random, for the runtime leaves out zeros and ones.
    """
    generator = torch.Generator().manual_seed(0)
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm2d) and layer.running_mean is not None and layer.running_var is not None:
            layer.running_mean.normal_(0.0, 0.1, generator=generator)
            layer.running_var.uniform_(0.5, 1.5, generator=generator)
    if device.takes == "torch":
        from pipeline.latency.torch_device import TorchModel

        return TorchModel(module.eval(), inputs)
    return onnx_bytes(fold_batch_norms(module), inputs)


def onnx_bytes(module: nn.Module, inputs: Sequence[Tensor]) -> bytes:
    """The module as an ONNX file in memory."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        write_quick(module, inputs, path)
        return path.read_bytes()


def make_network(device: Device, skeleton: Skeleton, genotype: Genotype) -> Any:
    """The whole network of a genotype as it is deployed, but with random weights, the same every time."""
    return _make_seeded(device, skeleton, lambda: from_pixels(Network(skeleton, genotype), skeleton))


def make_sentinel(device: Device) -> Any:
    """The network that is timed throughout to know how fast the machine is."""
    record = {"space": "darts", "normal": _SENTINEL_GENES, "reduce": _SENTINEL_GENES}
    return _make_seeded(device, _SENTINEL_SKELETON, lambda: Network(_SENTINEL_SKELETON, genotype_from_record(record)))


def _make_seeded(device: Device, skeleton: Skeleton, make: Callable[[], nn.Module]) -> Any:
    """A module for images of the skeleton's size, whose random weights are the same every time."""
    shape = (device.fingerprint.batch, skeleton.in_channels, skeleton.resolution, skeleton.resolution)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return make_model(device, make(), [torch.rand(shape)])
