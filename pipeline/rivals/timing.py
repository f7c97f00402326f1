"""Latency of rivals beside the certified network, in the same rounds on the same machine."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from pipeline.latency.budget_rule import Measured
from pipeline.latency.measure import Effort
from pipeline.latency.models import from_pixels, make_model, make_network
from pipeline.latency.target import TargetMachine
from pipeline.space.genotype import Genotype
from pipeline.space.skeleton import Skeleton

_QUICK = Effort(rounds=20, calls=4, extra_rounds=20)  # for a width that is tried on the way


@dataclass(frozen=True)
class Stopwatch:
    """A machine, and the network that others are timed beside."""

    machine: TargetMachine
    skeleton: Skeleton
    genotype: Genotype
    percentile: int

    def ratio_of(self, rival: nn.Module) -> float:
        """The rival's latency over the certified network's, quickly."""
        quick = replace(self.machine, effort=_QUICK)
        ours, theirs = quick.time([self._network(self.genotype), self._module(rival)])
        return theirs.at(self.percentile) / ours.at(self.percentile)

    def time_genotypes(self, genotypes: Sequence[Genotype]) -> list[Measured]:
        """Networks of the same skeleton, quickly."""
        return replace(self.machine, effort=_QUICK).time([self._network(genotype) for genotype in genotypes])

    def time_all(self, others: Sequence[nn.Module]) -> list[Measured]:
        """The certified network, then the others, carefully."""
        return self.machine.time([self._network(self.genotype), *map(self._module, others)])

    def _network(self, genotype: Genotype) -> Any:
        return make_network(self.machine.device, self.skeleton, genotype)

    def _module(self, module: nn.Module) -> Any:
        size = (self.skeleton.in_channels, self.skeleton.resolution, self.skeleton.resolution)
        image = torch.rand(self.machine.device.fingerprint.batch, *size)
        return make_model(self.machine.device, from_pixels(deepcopy(module), self.skeleton), [image])
