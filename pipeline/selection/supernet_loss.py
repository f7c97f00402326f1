"""What the supernet's weights say of single networks: their validation loss, with BatchNorm statistics of their own."""

from itertools import islice

import torch
from torch import nn

from pipeline.artifacts.alphas import SupernetWeights
from pipeline.selection.short_training import Material, validation_loss
from pipeline.selection.sources import Measure
from pipeline.space.genotype import Genotype
from pipeline.space.network import Network
from pipeline.space.skeleton import Skeleton
from pipeline.space.supernet import inherit_weights

_STATISTICS_BATCHES, _VALIDATION_IMAGES = 8, 1024


class SupernetLoss:
    """Validation losses of networks that take their weights from the search's supernet."""

    def __init__(self, skeleton: Skeleton, weights: SupernetWeights, material: Material) -> None:
        self._skeleton, self._material = skeleton, material
        self._supernet = weights.build(skeleton)

    def measure(self) -> Measure:
        """As a source: the loss with its sign turned."""
        return Measure(("supernet",), lambda genotype: [-self.loss(genotype)])

    def loss(self, genotype: Genotype) -> float:
        network = Network(self._skeleton, genotype, affine=False, pool_bn=True)
        inherit_weights(network, self._supernet)
        network.to(self._material.device).train()
        for module in network.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.reset_running_stats()
                module.momentum = None  # the plain mean over all batches
        with torch.no_grad():
            for batch in islice(self._material.training(), _STATISTICS_BATCHES):
                network(batch.images)
        return validation_loss(network, self._material, _VALIDATION_IMAGES)
